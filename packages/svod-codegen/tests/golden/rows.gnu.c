#include <math.h>
#include <stdbool.h>
#include <stdint.h>

typedef float f32x4 __attribute__((vector_size(16)));
typedef float f32x4_in_memory __attribute__((vector_size(16), aligned(4), may_alias));
typedef int32_t mf32x4 __attribute__((vector_size(16)));
void kernel(void *const *buffers, const int64_t *values, int64_t core_id) {
  float *restrict data0 = buffers[0];
  float *restrict data1 = buffers[1];
  int32_t *restrict data2 = buffers[2];
  (void)buffers;
  (void)values;
  (void)core_id;
  for (int32_t i1 = 0; i1 < 5; i1++) {
    const int32_t v2 = data2[i1];
    const bool v3 = 0 <= v2;
    const bool v4 = v2 < 3;
    const bool v5 = v3 & v4;
    const int32_t v6 = (int32_t)v5;
    for (int32_t i7 = 0; i7 < v6; i7++) {
      const int32_t v8 = i1 * 4;
      const f32x4 v9 = *(const f32x4_in_memory *)(&data1[v8 + 0]);
      const int32_t v10 = (int32_t)((uint32_t)v2 * (uint32_t)4);
      const f32x4 v11 = *(const f32x4_in_memory *)(&data0[v10 + 0]);
      const f32x4 v12 = v11 + v9;
      *(f32x4_in_memory *)(&data0[v10 + 0]) = v12;
    }
  }
}
