#include <math.h>
#include <stdbool.h>
#include <stdint.h>

typedef _Float16 f16x8 __attribute__((vector_size(16)));
typedef _Float16 f16x8_in_memory __attribute__((vector_size(16), aligned(2), may_alias));
typedef int16_t mf16x8 __attribute__((vector_size(16)));
typedef uint16_t bf16x8 __attribute__((vector_size(16)));
typedef uint16_t bf16x8_in_memory __attribute__((vector_size(16), aligned(2), may_alias));
typedef int16_t mbf16x8 __attribute__((vector_size(16)));
typedef float f32x8 __attribute__((vector_size(32)));
typedef float f32x8_in_memory __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t mf32x8 __attribute__((vector_size(32)));
void kernel(void *const *buffers, const int64_t *values, int64_t core_id) {
  _Float16 *restrict data0 = buffers[0];
  uint16_t *restrict data1 = buffers[1];
  uint8_t *restrict data2 = buffers[2];
  float *restrict data3 = buffers[3];
  _Float16 *restrict data4 = buffers[4];
  _Float16 *restrict data5 = buffers[5];
  uint16_t *restrict data6 = buffers[6];
  uint8_t *restrict data7 = buffers[7];
  uint8_t *restrict data8 = buffers[8];
  (void)buffers;
  (void)values;
  (void)core_id;
  for (int32_t i1 = 0; i1 < 8; i1++) {
    const _Float16 v2 = data4[i1];
    const _Float16 v3 = data5[i1];
    const bool v4 = v2 < v3;
    const _Float16 v5 = v2 * v3;
    const _Float16 v6 = v5 + ((_Float16)0x1.0000000000000p-1f);
    const _Float16 v7 = -v2;
    const _Float16 v8 = v4 ? v6 : v7;
    data0[i1] = v8;
    const uint16_t v9 = data6[i1];
    data1[i1] = v9;
    const uint8_t v10 = data7[i1];
    const uint8_t v11 = data8[i1];
    const uint8_t v12 = v4 ? v10 : v11;
    data2[i1] = v12;
    const float v13 = (float)(float)v2;
    const float v14 = (float)(float)v3;
    const float v15 = v13 - v14;
    data3[i1] = v15;
  }
  const f16x8 v16 = *(const f16x8_in_memory *)(&data4[8 + 0]);
  const f16x8 v17 = *(const f16x8_in_memory *)(&data5[8 + 0]);
  const f16x8 v18 = (f16x8){ ((v16[0] > v17[0]) | (v16[0] != v16[0]) | ((v16[0] == v17[0]) & (signbit((float)v17[0]) != 0))) ? v16[0] : v17[0], ((v16[1] > v17[1]) | (v16[1] != v16[1]) | ((v16[1] == v17[1]) & (signbit((float)v17[1]) != 0))) ? v16[1] : v17[1], ((v16[2] > v17[2]) | (v16[2] != v16[2]) | ((v16[2] == v17[2]) & (signbit((float)v17[2]) != 0))) ? v16[2] : v17[2], ((v16[3] > v17[3]) | (v16[3] != v16[3]) | ((v16[3] == v17[3]) & (signbit((float)v17[3]) != 0))) ? v16[3] : v17[3], ((v16[4] > v17[4]) | (v16[4] != v16[4]) | ((v16[4] == v17[4]) & (signbit((float)v17[4]) != 0))) ? v16[4] : v17[4], ((v16[5] > v17[5]) | (v16[5] != v16[5]) | ((v16[5] == v17[5]) & (signbit((float)v17[5]) != 0))) ? v16[5] : v17[5], ((v16[6] > v17[6]) | (v16[6] != v16[6]) | ((v16[6] == v17[6]) & (signbit((float)v17[6]) != 0))) ? v16[6] : v17[6], ((v16[7] > v17[7]) | (v16[7] != v16[7]) | ((v16[7] == v17[7]) & (signbit((float)v17[7]) != 0))) ? v16[7] : v17[7] };
  const f16x8 v19 = (f16x8){ ((_Float16)0x1.0000000000000p+0f), ((_Float16)0x1.0000000000000p+0f), ((_Float16)0x1.0000000000000p+0f), ((_Float16)0x1.0000000000000p+0f), ((_Float16)0x1.0000000000000p+0f), ((_Float16)0x1.0000000000000p+0f), ((_Float16)0x1.0000000000000p+0f), ((_Float16)0x1.0000000000000p+0f) };
  const f16x8 v20 = v18 - v19;
  *(f16x8_in_memory *)(&data0[8 + 0]) = v20;
  const bf16x8 v21 = *(const bf16x8_in_memory *)(&data6[8 + 0]);
  *(bf16x8_in_memory *)(&data1[8 + 0]) = v21;
  const f32x8 v22 = __builtin_convertvector(v16, f32x8);
  *(f32x8_in_memory *)(&data3[8 + 0]) = v22;
}
