#include <math.h>
#include <stdbool.h>
#include <stdint.h>

void kernel(void *const *buffers, const int64_t *values, int64_t core_id) {
  int64_t *restrict data0 = buffers[0];
  const int32_t part = (int32_t)core_id;
  const int32_t var_n = (int32_t)values[0];
  const int64_t var_shift = (int64_t)values[1];
  (void)buffers;
  (void)values;
  (void)core_id;
  for (int32_t i1 = 0; i1 < var_n; i1++) {
    const int32_t v2 = part * 4;
    const int32_t v3 = v2 + i1;
    const int32_t v4 = i1 + 1;
    const int64_t v5 = (int64_t)v4;
    const int64_t v6 = var_shift * v5;
    const int64_t v7 = (int64_t)part;
    const int64_t v8 = v6 + v7;
    data0[v3] = v8;
  }
}
