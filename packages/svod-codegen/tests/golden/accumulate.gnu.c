#include <math.h>
#include <stdbool.h>
#include <stdint.h>

typedef float f32x4 __attribute__((vector_size(16)));
typedef float f32x4_in_memory __attribute__((vector_size(16), aligned(4), may_alias));
typedef int32_t mf32x4 __attribute__((vector_size(16)));
void kernel(void *const *buffers, const int64_t *values, int64_t core_id) {
  float *restrict data0 = buffers[0];
  float *restrict data1 = buffers[1];
  (void)buffers;
  (void)values;
  (void)core_id;
  f32x4 reg0[1];
  for (int32_t i1 = 0; i1 < 3; i1++) {
    const f32x4 v2 = (f32x4){ 0x0.0p+0f, 0x0.0p+0f, 0x0.0p+0f, 0x0.0p+0f };
    reg0[0] = v2;
    for (int32_t i3 = 0; i3 < 4; i3++) {
      const f32x4 v4 = reg0[0];
      const int32_t v5 = i1 * 16;
      const int32_t v6 = i3 * 4;
      const int32_t v7 = v5 + v6;
      const f32x4 v8 = *(const f32x4_in_memory *)(&data1[v7 + 0]);
      const f32x4 v9 = v4 + v8;
      reg0[0] = v9;
    }
    const f32x4 v10 = reg0[0];
    const float v11 = v10[0] + v10[2];
    const float v12 = v10[1] + v10[3];
    const float v13 = v11 + v12;
    data0[i1] = v13;
  }
}
