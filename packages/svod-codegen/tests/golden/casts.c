#include <math.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct { int32_t lane[8]; } i32x8;
typedef struct { int64_t lane[8]; } i64x8;
typedef struct { float lane[8]; } f32x8;
typedef struct { uint8_t lane[8]; } u8x8;
typedef struct { double lane[8]; } f64x8;
void kernel(void *const *buffers, const int64_t *values, int64_t core_id) {
  int8_t *restrict data0 = buffers[0];
  uint16_t *restrict data1 = buffers[1];
  double *restrict data2 = buffers[2];
  bool *restrict data3 = buffers[3];
  float *restrict data4 = buffers[4];
  uint64_t *restrict data5 = buffers[5];
  float *restrict data6 = buffers[6];
  int32_t *restrict data7 = buffers[7];
  bool *restrict data8 = buffers[8];
  int64_t *restrict data9 = buffers[9];
  uint8_t *restrict data10 = buffers[10];
  double *restrict data11 = buffers[11];
  (void)buffers;
  (void)values;
  (void)core_id;
  for (int32_t i1 = 0; i1 < 8; i1++) {
    const float v2 = data6[i1];
    const int32_t v3 = data7[i1];
    const int8_t v4 = (int8_t)v3;
    data0[i1] = v4;
    const uint16_t v5 = v2 >= 0x1.0000000000000p+16f ? 65535 : v2 > 0x0.0p+0f ? (uint16_t)v2 : v2 <= 0x0.0p+0f ? 0 : 0;
    data1[i1] = v5;
    const double v6 = (double)v2;
    const double v7 = (double)v3;
    const double v8 = v6 + v7;
    data2[i1] = v8;
    const bool v9 = v3 != 0;
    const bool v10 = v2 != 0;
    const bool v11 = v9 ^ v10;
    data3[i1] = v11;
    const bool v12 = data8[i1];
    const float v13 = (float)v12;
    const float v14 = (float)v3;
    const float v15 = v13 + v14;
    data4[i1] = v15;
    const uint64_t v16 = (uint64_t)v3;
    const uint8_t v17 = (uint8_t)v3;
    const uint64_t v18 = (uint64_t)v17;
    const uint64_t v19 = v16 + v18;
    data5[i1] = v19;
  }
  const i32x8 v20 = (i32x8){ { data7[0 + 0], data7[0 + 1], data7[0 + 2], data7[0 + 3], data7[0 + 4], data7[0 + 5], data7[0 + 6], data7[0 + 7] } };
  const i64x8 v21 = (i64x8){ { (int64_t)v20.lane[0], (int64_t)v20.lane[1], (int64_t)v20.lane[2], (int64_t)v20.lane[3], (int64_t)v20.lane[4], (int64_t)v20.lane[5], (int64_t)v20.lane[6], (int64_t)v20.lane[7] } };
  data9[0 + 0] = v21.lane[0];
  data9[0 + 1] = v21.lane[1];
  data9[0 + 2] = v21.lane[2];
  data9[0 + 3] = v21.lane[3];
  data9[0 + 4] = v21.lane[4];
  data9[0 + 5] = v21.lane[5];
  data9[0 + 6] = v21.lane[6];
  data9[0 + 7] = v21.lane[7];
  const f32x8 v22 = (f32x8){ { data6[0 + 0], data6[0 + 1], data6[0 + 2], data6[0 + 3], data6[0 + 4], data6[0 + 5], data6[0 + 6], data6[0 + 7] } };
  const u8x8 v23 = (u8x8){ { v22.lane[0] >= 0x1.0000000000000p+8f ? 255 : v22.lane[0] > 0x0.0p+0f ? (uint8_t)v22.lane[0] : v22.lane[0] <= 0x0.0p+0f ? 0 : 0, v22.lane[1] >= 0x1.0000000000000p+8f ? 255 : v22.lane[1] > 0x0.0p+0f ? (uint8_t)v22.lane[1] : v22.lane[1] <= 0x0.0p+0f ? 0 : 0, v22.lane[2] >= 0x1.0000000000000p+8f ? 255 : v22.lane[2] > 0x0.0p+0f ? (uint8_t)v22.lane[2] : v22.lane[2] <= 0x0.0p+0f ? 0 : 0, v22.lane[3] >= 0x1.0000000000000p+8f ? 255 : v22.lane[3] > 0x0.0p+0f ? (uint8_t)v22.lane[3] : v22.lane[3] <= 0x0.0p+0f ? 0 : 0, v22.lane[4] >= 0x1.0000000000000p+8f ? 255 : v22.lane[4] > 0x0.0p+0f ? (uint8_t)v22.lane[4] : v22.lane[4] <= 0x0.0p+0f ? 0 : 0, v22.lane[5] >= 0x1.0000000000000p+8f ? 255 : v22.lane[5] > 0x0.0p+0f ? (uint8_t)v22.lane[5] : v22.lane[5] <= 0x0.0p+0f ? 0 : 0, v22.lane[6] >= 0x1.0000000000000p+8f ? 255 : v22.lane[6] > 0x0.0p+0f ? (uint8_t)v22.lane[6] : v22.lane[6] <= 0x0.0p+0f ? 0 : 0, v22.lane[7] >= 0x1.0000000000000p+8f ? 255 : v22.lane[7] > 0x0.0p+0f ? (uint8_t)v22.lane[7] : v22.lane[7] <= 0x0.0p+0f ? 0 : 0 } };
  data10[0 + 0] = v23.lane[0];
  data10[0 + 1] = v23.lane[1];
  data10[0 + 2] = v23.lane[2];
  data10[0 + 3] = v23.lane[3];
  data10[0 + 4] = v23.lane[4];
  data10[0 + 5] = v23.lane[5];
  data10[0 + 6] = v23.lane[6];
  data10[0 + 7] = v23.lane[7];
  const f64x8 v24 = (f64x8){ { (double)v20.lane[0], (double)v20.lane[1], (double)v20.lane[2], (double)v20.lane[3], (double)v20.lane[4], (double)v20.lane[5], (double)v20.lane[6], (double)v20.lane[7] } };
  data11[0 + 0] = v24.lane[0];
  data11[0 + 1] = v24.lane[1];
  data11[0 + 2] = v24.lane[2];
  data11[0 + 3] = v24.lane[3];
  data11[0 + 4] = v24.lane[4];
  data11[0 + 5] = v24.lane[5];
  data11[0 + 6] = v24.lane[6];
  data11[0 + 7] = v24.lane[7];
}
