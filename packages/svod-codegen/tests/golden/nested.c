#include <math.h>
#include <stdbool.h>
#include <stdint.h>

void kernel(void *const *buffers, const int64_t *values, int64_t core_id) {
  double *restrict data0 = buffers[0];
  float *restrict data1 = buffers[1];
  uint8_t *restrict data2 = buffers[2];
  (void)buffers;
  (void)values;
  (void)core_id;
  double reg0[2];
  for (int32_t i1 = 0; i1 < 6; i1++) {
    const uint8_t v2 = data2[i1];
    const int32_t v3 = (int32_t)v2;
    const int32_t v4 = (int32_t)(v3 & 3);
    reg0[0] = 0x0.0p+0;
    reg0[1] = 0x1.0000000000000p+0;
    for (int32_t i5 = 0; i5 < 5; i5++) {
      const int32_t v6 = v4 * 5;
      const int32_t v7 = v6 + i5;
      const float v8 = data1[v7];
      const double v9 = (double)v8;
      const double v10 = reg0[0];
      const double v11 = v9 * v9;
      const double v12 = v10 + v11;
      reg0[0] = v12;
      const double v13 = reg0[1];
      const double v14 = fabs(v9);
      const double v15 = ((v13 > v14) | (v13 != v13) | ((v13 == v14) & (signbit((float)v14) != 0))) ? v13 : v14;
      reg0[1] = v15;
    }
    const double v16 = reg0[0];
    const double v17 = sqrt(v16);
    const double v18 = reg0[1];
    const double v19 = v17 / v18;
    data0[i1] = v19;
  }
}
