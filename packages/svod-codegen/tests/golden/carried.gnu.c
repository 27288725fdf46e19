#include <math.h>
#include <stdbool.h>
#include <stdint.h>

typedef float f32x4 __attribute__((vector_size(16)));
typedef float f32x4_in_memory __attribute__((vector_size(16), aligned(4), may_alias));
typedef int32_t mf32x4 __attribute__((vector_size(16)));
void kernel(void *const *buffers, const int64_t *values, int64_t core_id) {
  float *restrict data0 = buffers[0];
  float *restrict data1 = buffers[1];
  float *restrict data2 = buffers[2];
  (void)buffers;
  (void)values;
  (void)core_id;
  f32x4 reg1[1];
  f32x4 reg0[1];
  for (int32_t i1 = 0; i1 < 2; i1++) {
    const int32_t v2 = i1 * 4;
    const f32x4 v3 = *(const f32x4_in_memory *)(&data2[v2 + 0]);
    reg0[0] = v3;
    const f32x4 v4 = (f32x4){ 0x1.0000000000000p-1f, 0x1.0000000000000p-1f, 0x1.0000000000000p-1f, 0x1.0000000000000p-1f };
    reg1[0] = v4;
    for (int32_t i5 = 0; i5 < 3; i5++) {
      const f32x4 v6 = reg0[0];
      const f32x4 v7 = reg1[0];
      const int32_t v8 = i5 * 8;
      const int32_t v9 = v8 + v2;
      *(f32x4_in_memory *)(&data1[v9 + 0]) = v6;
      reg0[0] = v7;
      const f32x4 v10 = v6 + v7;
      reg1[0] = v10;
    }
    const f32x4 v11 = reg0[0];
    *(f32x4_in_memory *)(&data0[v2 + 0]) = v11;
  }
}
