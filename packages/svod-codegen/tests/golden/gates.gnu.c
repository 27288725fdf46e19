#include <math.h>
#include <stdbool.h>
#include <stdint.h>

void kernel(void *const *buffers, const int64_t *values, int64_t core_id) {
  float *restrict data0 = buffers[0];
  float *restrict data1 = buffers[1];
  float *restrict data2 = buffers[2];
  const int32_t var_n = (int32_t)values[0];
  (void)buffers;
  (void)values;
  (void)core_id;
  const bool v1 = var_n < 5;
  const float v2 = v1 ? data2[var_n] : 0x1.2000000000000p+3f;
  if (v1) data0[var_n] = v2;
  data1[0] = v2;
}
