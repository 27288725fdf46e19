#include <math.h>
#include <stdbool.h>
#include <stdint.h>

void kernel(void *const *buffers, const int64_t *values, int64_t core_id) {
  float *restrict data0 = buffers[0];
  (void)buffers;
  (void)values;
  (void)core_id;
  float local0[100];
  for (int32_t i1 = 0; i1 < 100; i1++) {
    const float v2 = (float)i1;
    local0[i1] = v2;
  }
  for (int32_t i3 = 0; i3 < 100; i3++) {
    const int32_t v4 = 99 - i3;
    const float v5 = local0[v4];
    data0[i3] = v5;
  }
}
