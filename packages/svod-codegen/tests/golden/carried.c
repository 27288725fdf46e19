#include <math.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct { float lane[4]; } f32x4;
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
    const f32x4 v3 = (f32x4){ { data2[v2 + 0], data2[v2 + 1], data2[v2 + 2], data2[v2 + 3] } };
    reg0[0] = v3;
    const f32x4 v4 = (f32x4){ { 0x1.0000000000000p-1f, 0x1.0000000000000p-1f, 0x1.0000000000000p-1f, 0x1.0000000000000p-1f } };
    reg1[0] = v4;
    for (int32_t i5 = 0; i5 < 3; i5++) {
      const f32x4 v6 = reg0[0];
      const f32x4 v7 = reg1[0];
      const int32_t v8 = i5 * 8;
      const int32_t v9 = v8 + v2;
      data1[v9 + 0] = v6.lane[0];
      data1[v9 + 1] = v6.lane[1];
      data1[v9 + 2] = v6.lane[2];
      data1[v9 + 3] = v6.lane[3];
      reg0[0] = v7;
      const f32x4 v10 = (f32x4){ { v6.lane[0] + v7.lane[0], v6.lane[1] + v7.lane[1], v6.lane[2] + v7.lane[2], v6.lane[3] + v7.lane[3] } };
      reg1[0] = v10;
    }
    const f32x4 v11 = reg0[0];
    data0[v2 + 0] = v11.lane[0];
    data0[v2 + 1] = v11.lane[1];
    data0[v2 + 2] = v11.lane[2];
    data0[v2 + 3] = v11.lane[3];
  }
}
