#include <math.h>
#include <stdbool.h>
#include <stdint.h>

typedef float f32x8 __attribute__((vector_size(32)));
typedef float f32x8_in_memory __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t mf32x8 __attribute__((vector_size(32)));
typedef uint8_t boolx8 __attribute__((vector_size(8)));
typedef uint8_t boolx8_in_memory __attribute__((vector_size(8), aligned(1), may_alias));
typedef int8_t mboolx8 __attribute__((vector_size(8)));
void kernel(void *const *buffers, const int64_t *values, int64_t core_id) {
  float *restrict data0 = buffers[0];
  float *restrict data1 = buffers[1];
  float *restrict data2 = buffers[2];
  (void)buffers;
  (void)values;
  (void)core_id;
  for (int32_t i1 = 0; i1 < 5; i1++) {
    const float v2 = data1[i1];
    const float v3 = data2[i1];
    const bool v4 = v2 < v3;
    const float v5 = ((v2 > (-0x1.0000000000000p-1f)) | (v2 != v2) | ((v2 == (-0x1.0000000000000p-1f)) & (signbit((float)(-0x1.0000000000000p-1f)) != 0))) ? v2 : (-0x1.0000000000000p-1f);
    const float v6 = -v3;
    const float v7 = v4 ? v5 : v6;
    const float v8 = fmaf(v7, v2, 0x1.4000000000000p+0f);
    const float v9 = fabsf(v3);
    const float v10 = sqrtf(v9);
    const float v11 = floorf(v10);
    const float v12 = v8 + v11;
    data0[i1] = v12;
  }
  for (int32_t i13 = 0; i13 < 2; i13++) {
    const int32_t v14 = i13 * 8;
    const int32_t v15 = v14 + 8;
    const f32x8 v16 = *(const f32x8_in_memory *)(&data1[v15 + 0]);
    const f32x8 v17 = *(const f32x8_in_memory *)(&data2[v15 + 0]);
    const boolx8 v18 = __builtin_convertvector((mf32x8)(v16 < v17), boolx8) & 1;
    const boolx8 v19 = v18 ^ 1;
    const boolx8 v20 = __builtin_convertvector((mf32x8)(v16 == v16), boolx8) & 1;
    const boolx8 v21 = v19 & v20;
    const f32x8 v22 = (f32x8)(((mf32x8)((v16 < v17) | (v16 != v16) | ((v16 == v17) & ((mf32x8)v16 < 0))) & (mf32x8)v16) | (~(mf32x8)((v16 < v17) | (v16 != v16) | ((v16 == v17) & ((mf32x8)v16 < 0))) & (mf32x8)v17));
    const f32x8 v23 = (f32x8){ rintf(v17[0]), rintf(v17[1]), rintf(v17[2]), rintf(v17[3]), rintf(v17[4]), rintf(v17[5]), rintf(v17[6]), rintf(v17[7]) };
    const f32x8 v24 = (f32x8){ 0x1.0000000000000p+2f, 0x1.0000000000000p+2f, 0x1.0000000000000p+2f, 0x1.0000000000000p+2f, 0x1.0000000000000p+2f, 0x1.0000000000000p+2f, 0x1.0000000000000p+2f, 0x1.0000000000000p+2f };
    const f32x8 v25 = v23 / v24;
    const f32x8 v26 = (f32x8)(((mf32x8)(((~(v16 < v17)) & (v16 == v16))) & (mf32x8)v22) | (~(mf32x8)(((~(v16 < v17)) & (v16 == v16))) & (mf32x8)v25));
    *(f32x8_in_memory *)(&data0[v15 + 0]) = v26;
  }
}
