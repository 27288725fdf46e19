#include <math.h>
#include <stdbool.h>
#include <stdint.h>

typedef int32_t i32x8 __attribute__((vector_size(32)));
typedef int32_t i32x8_in_memory __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t mi32x8 __attribute__((vector_size(32)));
typedef uint32_t ui32x8 __attribute__((vector_size(32)));
typedef int64_t i64x4 __attribute__((vector_size(32)));
typedef int64_t i64x4_in_memory __attribute__((vector_size(32), aligned(8), may_alias));
typedef int64_t mi64x4 __attribute__((vector_size(32)));
typedef uint64_t ui64x4 __attribute__((vector_size(32)));
typedef struct { i64x4 part[2]; } i64x8;
typedef float f32x8 __attribute__((vector_size(32)));
typedef float f32x8_in_memory __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t mf32x8 __attribute__((vector_size(32)));
typedef uint8_t u8x8 __attribute__((vector_size(8)));
typedef uint8_t u8x8_in_memory __attribute__((vector_size(8), aligned(1), may_alias));
typedef int8_t mu8x8 __attribute__((vector_size(8)));
typedef double f64x4 __attribute__((vector_size(32)));
typedef double f64x4_in_memory __attribute__((vector_size(32), aligned(8), may_alias));
typedef int64_t mf64x4 __attribute__((vector_size(32)));
typedef struct { f64x4 part[2]; } f64x8;
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
  const i32x8 v20 = *(const i32x8_in_memory *)(&data7[0 + 0]);
  const i64x8 v21 = (i64x8){ { (i64x4){ (int64_t)v20[0], (int64_t)v20[1], (int64_t)v20[2], (int64_t)v20[3] }, (i64x4){ (int64_t)v20[4], (int64_t)v20[5], (int64_t)v20[6], (int64_t)v20[7] } } };
  *(i64x4_in_memory *)(&data9[0 + 0]) = v21.part[0]; *(i64x4_in_memory *)(&data9[0 + 0] + 4) = v21.part[1];
  const f32x8 v22 = *(const f32x8_in_memory *)(&data6[0 + 0]);
  const u8x8 v23 = (u8x8){ v22[0] >= 0x1.0000000000000p+8f ? 255 : v22[0] > 0x0.0p+0f ? (uint8_t)v22[0] : v22[0] <= 0x0.0p+0f ? 0 : 0, v22[1] >= 0x1.0000000000000p+8f ? 255 : v22[1] > 0x0.0p+0f ? (uint8_t)v22[1] : v22[1] <= 0x0.0p+0f ? 0 : 0, v22[2] >= 0x1.0000000000000p+8f ? 255 : v22[2] > 0x0.0p+0f ? (uint8_t)v22[2] : v22[2] <= 0x0.0p+0f ? 0 : 0, v22[3] >= 0x1.0000000000000p+8f ? 255 : v22[3] > 0x0.0p+0f ? (uint8_t)v22[3] : v22[3] <= 0x0.0p+0f ? 0 : 0, v22[4] >= 0x1.0000000000000p+8f ? 255 : v22[4] > 0x0.0p+0f ? (uint8_t)v22[4] : v22[4] <= 0x0.0p+0f ? 0 : 0, v22[5] >= 0x1.0000000000000p+8f ? 255 : v22[5] > 0x0.0p+0f ? (uint8_t)v22[5] : v22[5] <= 0x0.0p+0f ? 0 : 0, v22[6] >= 0x1.0000000000000p+8f ? 255 : v22[6] > 0x0.0p+0f ? (uint8_t)v22[6] : v22[6] <= 0x0.0p+0f ? 0 : 0, v22[7] >= 0x1.0000000000000p+8f ? 255 : v22[7] > 0x0.0p+0f ? (uint8_t)v22[7] : v22[7] <= 0x0.0p+0f ? 0 : 0 };
  *(u8x8_in_memory *)(&data10[0 + 0]) = v23;
  const f64x8 v24 = (f64x8){ { (f64x4){ (double)v20[0], (double)v20[1], (double)v20[2], (double)v20[3] }, (f64x4){ (double)v20[4], (double)v20[5], (double)v20[6], (double)v20[7] } } };
  *(f64x4_in_memory *)(&data11[0 + 0]) = v24.part[0]; *(f64x4_in_memory *)(&data11[0 + 0] + 4) = v24.part[1];
}
