#include <math.h>
#include <stdbool.h>
#include <stdint.h>

void kernel(void *const *buffers, const int64_t *values, int64_t core_id) {
  int32_t *restrict data0 = buffers[0];
  int32_t *restrict data1 = buffers[1];
  (void)buffers;
  (void)values;
  (void)core_id;
  int32_t reg0[1];
  reg0[0] = 1;
  const int32_t v1 = data1[0];
  for (int32_t i2 = 0; i2 < 1000; i2++) {
    const int32_t v3 = reg0[0];
    const int32_t v4 = (int32_t)((uint32_t)v3 + (uint32_t)v3);
    reg0[0] = v4;
    const bool v5 = v1 < v4;
    if (v5) break;
  }
  const int32_t v6 = reg0[0];
  data0[0] = v6;
}
