#include <math.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct { _Float16 lane[8]; } f16x8;
typedef struct { uint16_t lane[8]; } bf16x8;
typedef struct { float lane[8]; } f32x8;
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
  const f16x8 v16 = (f16x8){ { data4[8 + 0], data4[8 + 1], data4[8 + 2], data4[8 + 3], data4[8 + 4], data4[8 + 5], data4[8 + 6], data4[8 + 7] } };
  const f16x8 v17 = (f16x8){ { data5[8 + 0], data5[8 + 1], data5[8 + 2], data5[8 + 3], data5[8 + 4], data5[8 + 5], data5[8 + 6], data5[8 + 7] } };
  const f16x8 v18 = (f16x8){ { ((v16.lane[0] > v17.lane[0]) | (v16.lane[0] != v16.lane[0]) | ((v16.lane[0] == v17.lane[0]) & (signbit((float)v17.lane[0]) != 0))) ? v16.lane[0] : v17.lane[0], ((v16.lane[1] > v17.lane[1]) | (v16.lane[1] != v16.lane[1]) | ((v16.lane[1] == v17.lane[1]) & (signbit((float)v17.lane[1]) != 0))) ? v16.lane[1] : v17.lane[1], ((v16.lane[2] > v17.lane[2]) | (v16.lane[2] != v16.lane[2]) | ((v16.lane[2] == v17.lane[2]) & (signbit((float)v17.lane[2]) != 0))) ? v16.lane[2] : v17.lane[2], ((v16.lane[3] > v17.lane[3]) | (v16.lane[3] != v16.lane[3]) | ((v16.lane[3] == v17.lane[3]) & (signbit((float)v17.lane[3]) != 0))) ? v16.lane[3] : v17.lane[3], ((v16.lane[4] > v17.lane[4]) | (v16.lane[4] != v16.lane[4]) | ((v16.lane[4] == v17.lane[4]) & (signbit((float)v17.lane[4]) != 0))) ? v16.lane[4] : v17.lane[4], ((v16.lane[5] > v17.lane[5]) | (v16.lane[5] != v16.lane[5]) | ((v16.lane[5] == v17.lane[5]) & (signbit((float)v17.lane[5]) != 0))) ? v16.lane[5] : v17.lane[5], ((v16.lane[6] > v17.lane[6]) | (v16.lane[6] != v16.lane[6]) | ((v16.lane[6] == v17.lane[6]) & (signbit((float)v17.lane[6]) != 0))) ? v16.lane[6] : v17.lane[6], ((v16.lane[7] > v17.lane[7]) | (v16.lane[7] != v16.lane[7]) | ((v16.lane[7] == v17.lane[7]) & (signbit((float)v17.lane[7]) != 0))) ? v16.lane[7] : v17.lane[7] } };
  const f16x8 v19 = (f16x8){ { ((_Float16)0x1.0000000000000p+0f), ((_Float16)0x1.0000000000000p+0f), ((_Float16)0x1.0000000000000p+0f), ((_Float16)0x1.0000000000000p+0f), ((_Float16)0x1.0000000000000p+0f), ((_Float16)0x1.0000000000000p+0f), ((_Float16)0x1.0000000000000p+0f), ((_Float16)0x1.0000000000000p+0f) } };
  const f16x8 v20 = (f16x8){ { v18.lane[0] - ((_Float16)0x1.0000000000000p+0f), v18.lane[1] - ((_Float16)0x1.0000000000000p+0f), v18.lane[2] - ((_Float16)0x1.0000000000000p+0f), v18.lane[3] - ((_Float16)0x1.0000000000000p+0f), v18.lane[4] - ((_Float16)0x1.0000000000000p+0f), v18.lane[5] - ((_Float16)0x1.0000000000000p+0f), v18.lane[6] - ((_Float16)0x1.0000000000000p+0f), v18.lane[7] - ((_Float16)0x1.0000000000000p+0f) } };
  data0[8 + 0] = v20.lane[0];
  data0[8 + 1] = v20.lane[1];
  data0[8 + 2] = v20.lane[2];
  data0[8 + 3] = v20.lane[3];
  data0[8 + 4] = v20.lane[4];
  data0[8 + 5] = v20.lane[5];
  data0[8 + 6] = v20.lane[6];
  data0[8 + 7] = v20.lane[7];
  const bf16x8 v21 = (bf16x8){ { data6[8 + 0], data6[8 + 1], data6[8 + 2], data6[8 + 3], data6[8 + 4], data6[8 + 5], data6[8 + 6], data6[8 + 7] } };
  data1[8 + 0] = v21.lane[0];
  data1[8 + 1] = v21.lane[1];
  data1[8 + 2] = v21.lane[2];
  data1[8 + 3] = v21.lane[3];
  data1[8 + 4] = v21.lane[4];
  data1[8 + 5] = v21.lane[5];
  data1[8 + 6] = v21.lane[6];
  data1[8 + 7] = v21.lane[7];
  const f32x8 v22 = (f32x8){ { (float)(float)v16.lane[0], (float)(float)v16.lane[1], (float)(float)v16.lane[2], (float)(float)v16.lane[3], (float)(float)v16.lane[4], (float)(float)v16.lane[5], (float)(float)v16.lane[6], (float)(float)v16.lane[7] } };
  data3[8 + 0] = v22.lane[0];
  data3[8 + 1] = v22.lane[1];
  data3[8 + 2] = v22.lane[2];
  data3[8 + 3] = v22.lane[3];
  data3[8 + 4] = v22.lane[4];
  data3[8 + 5] = v22.lane[5];
  data3[8 + 6] = v22.lane[6];
  data3[8 + 7] = v22.lane[7];
}
