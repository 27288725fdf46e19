#include <math.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct { int32_t lane[8]; } i32x8;
typedef struct { bool lane[8]; } boolx8;
typedef struct { float lane[8]; } f32x8;
typedef struct { int32_t lane[4]; } i32x4;
typedef struct { float lane[4]; } f32x4;
typedef struct { bool lane[4]; } boolx4;
void kernel(void *const *buffers, const int64_t *values, int64_t core_id) {
  float *restrict data0 = buffers[0];
  float *restrict data1 = buffers[1];
  float *restrict data2 = buffers[2];
  float *restrict data3 = buffers[3];
  float *restrict data4 = buffers[4];
  (void)buffers;
  (void)values;
  (void)core_id;
  const i32x8 v1 = (i32x8){ { 0, 1, 2, 3, 4, 5, 6, 7 } };
  const i32x8 v2 = (i32x8){ { 5, 5, 5, 5, 5, 5, 5, 5 } };
  const boolx8 v3 = (boolx8){ { 0 < 5, 1 < 5, 2 < 5, 3 < 5, 4 < 5, 5 < 5, 6 < 5, 7 < 5 } };
  const f32x8 v4 = (f32x8){ { (-0x1.0000000000000p+0f), (-0x1.0000000000000p+0f), (-0x1.0000000000000p+0f), (-0x1.0000000000000p+0f), (-0x1.0000000000000p+0f), (-0x1.0000000000000p+0f), (-0x1.0000000000000p+0f), (-0x1.0000000000000p+0f) } };
  const f32x8 v5 = (f32x8){ { v3.lane[0] ? data0[0 + 0] : (-0x1.0000000000000p+0f), v3.lane[1] ? data0[0 + 1] : (-0x1.0000000000000p+0f), v3.lane[2] ? data0[0 + 2] : (-0x1.0000000000000p+0f), v3.lane[3] ? data0[0 + 3] : (-0x1.0000000000000p+0f), v3.lane[4] ? data0[0 + 4] : (-0x1.0000000000000p+0f), v3.lane[5] ? data0[0 + 5] : (-0x1.0000000000000p+0f), v3.lane[6] ? data0[0 + 6] : (-0x1.0000000000000p+0f), v3.lane[7] ? data0[0 + 7] : (-0x1.0000000000000p+0f) } };
  data1[0 + 0] = v5.lane[0];
  data1[0 + 1] = v5.lane[1];
  data1[0 + 2] = v5.lane[2];
  data1[0 + 3] = v5.lane[3];
  data1[0 + 4] = v5.lane[4];
  data1[0 + 5] = v5.lane[5];
  data1[0 + 6] = v5.lane[6];
  data1[0 + 7] = v5.lane[7];
  if (v3.lane[0]) data2[0 + 0] = v5.lane[0];
  if (v3.lane[1]) data2[0 + 1] = v5.lane[1];
  if (v3.lane[2]) data2[0 + 2] = v5.lane[2];
  if (v3.lane[3]) data2[0 + 3] = v5.lane[3];
  if (v3.lane[4]) data2[0 + 4] = v5.lane[4];
  if (v3.lane[5]) data2[0 + 5] = v5.lane[5];
  if (v3.lane[6]) data2[0 + 6] = v5.lane[6];
  if (v3.lane[7]) data2[0 + 7] = v5.lane[7];
  const i32x4 v6 = (i32x4){ { 3, 0, 4, 1 } };
  const f32x4 v7 = (f32x4){ { data0[3], data0[0], data0[4], data0[1] } };
  data3[3] = v7.lane[0];
  data3[0] = v7.lane[1];
  data3[4] = v7.lane[2];
  data3[1] = v7.lane[3];
  const boolx4 v8 = (boolx4){ { true, false, false, true } };
  const f32x4 v9 = (f32x4){ { 0x1.c000000000000p+2f, 0x1.c000000000000p+2f, 0x1.c000000000000p+2f, 0x1.c000000000000p+2f } };
  const f32x4 v10 = (f32x4){ { true ? data0[3] : 0x1.c000000000000p+2f, false ? data0[0] : 0x1.c000000000000p+2f, false ? data0[4] : 0x1.c000000000000p+2f, true ? data0[1] : 0x1.c000000000000p+2f } };
  if (true) data4[3] = v10.lane[0];
  if (false) data4[0] = v10.lane[1];
  if (false) data4[4] = v10.lane[2];
  if (true) data4[1] = v10.lane[3];
}
