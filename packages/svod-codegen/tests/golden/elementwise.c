#include <math.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct { float lane[8]; } f32x8;
typedef struct { bool lane[8]; } boolx8;
void kernel(void *const *buffers, const int64_t *values, int64_t core_id) {
  float *restrict data0 = buffers[0];
  float *restrict data1 = buffers[1];
  float *restrict data2 = buffers[2];
  (void)buffers;
  (void)values;
  (void)core_id;
  for (int32_t i1 = 0; i1 < 5; i1++) {
    const float v2 = data1[i1];
    const float v3 = data2[i1];
    const bool v4 = v2 < v3;
    const float v5 = ((v2 > (-0x1.0000000000000p-1f)) | (v2 != v2) | ((v2 == (-0x1.0000000000000p-1f)) & (signbit((float)(-0x1.0000000000000p-1f)) != 0))) ? v2 : (-0x1.0000000000000p-1f);
    const float v6 = -v3;
    const float v7 = v4 ? v5 : v6;
    const float v8 = fmaf(v7, v2, 0x1.4000000000000p+0f);
    const float v9 = fabsf(v3);
    const float v10 = sqrtf(v9);
    const float v11 = floorf(v10);
    const float v12 = v8 + v11;
    data0[i1] = v12;
  }
  for (int32_t i13 = 0; i13 < 2; i13++) {
    const int32_t v14 = i13 * 8;
    const int32_t v15 = v14 + 8;
    const f32x8 v16 = (f32x8){ { data1[v15 + 0], data1[v15 + 1], data1[v15 + 2], data1[v15 + 3], data1[v15 + 4], data1[v15 + 5], data1[v15 + 6], data1[v15 + 7] } };
    const f32x8 v17 = (f32x8){ { data2[v15 + 0], data2[v15 + 1], data2[v15 + 2], data2[v15 + 3], data2[v15 + 4], data2[v15 + 5], data2[v15 + 6], data2[v15 + 7] } };
    const boolx8 v18 = (boolx8){ { v16.lane[0] < v17.lane[0], v16.lane[1] < v17.lane[1], v16.lane[2] < v17.lane[2], v16.lane[3] < v17.lane[3], v16.lane[4] < v17.lane[4], v16.lane[5] < v17.lane[5], v16.lane[6] < v17.lane[6], v16.lane[7] < v17.lane[7] } };
    const boolx8 v19 = (boolx8){ { !v18.lane[0], !v18.lane[1], !v18.lane[2], !v18.lane[3], !v18.lane[4], !v18.lane[5], !v18.lane[6], !v18.lane[7] } };
    const boolx8 v20 = (boolx8){ { v16.lane[0] == v16.lane[0], v16.lane[1] == v16.lane[1], v16.lane[2] == v16.lane[2], v16.lane[3] == v16.lane[3], v16.lane[4] == v16.lane[4], v16.lane[5] == v16.lane[5], v16.lane[6] == v16.lane[6], v16.lane[7] == v16.lane[7] } };
    const boolx8 v21 = (boolx8){ { v19.lane[0] & v20.lane[0], v19.lane[1] & v20.lane[1], v19.lane[2] & v20.lane[2], v19.lane[3] & v20.lane[3], v19.lane[4] & v20.lane[4], v19.lane[5] & v20.lane[5], v19.lane[6] & v20.lane[6], v19.lane[7] & v20.lane[7] } };
    const f32x8 v22 = (f32x8){ { ((v16.lane[0] < v17.lane[0]) | (v16.lane[0] != v16.lane[0]) | ((v16.lane[0] == v17.lane[0]) & (signbit((float)v16.lane[0]) != 0))) ? v16.lane[0] : v17.lane[0], ((v16.lane[1] < v17.lane[1]) | (v16.lane[1] != v16.lane[1]) | ((v16.lane[1] == v17.lane[1]) & (signbit((float)v16.lane[1]) != 0))) ? v16.lane[1] : v17.lane[1], ((v16.lane[2] < v17.lane[2]) | (v16.lane[2] != v16.lane[2]) | ((v16.lane[2] == v17.lane[2]) & (signbit((float)v16.lane[2]) != 0))) ? v16.lane[2] : v17.lane[2], ((v16.lane[3] < v17.lane[3]) | (v16.lane[3] != v16.lane[3]) | ((v16.lane[3] == v17.lane[3]) & (signbit((float)v16.lane[3]) != 0))) ? v16.lane[3] : v17.lane[3], ((v16.lane[4] < v17.lane[4]) | (v16.lane[4] != v16.lane[4]) | ((v16.lane[4] == v17.lane[4]) & (signbit((float)v16.lane[4]) != 0))) ? v16.lane[4] : v17.lane[4], ((v16.lane[5] < v17.lane[5]) | (v16.lane[5] != v16.lane[5]) | ((v16.lane[5] == v17.lane[5]) & (signbit((float)v16.lane[5]) != 0))) ? v16.lane[5] : v17.lane[5], ((v16.lane[6] < v17.lane[6]) | (v16.lane[6] != v16.lane[6]) | ((v16.lane[6] == v17.lane[6]) & (signbit((float)v16.lane[6]) != 0))) ? v16.lane[6] : v17.lane[6], ((v16.lane[7] < v17.lane[7]) | (v16.lane[7] != v16.lane[7]) | ((v16.lane[7] == v17.lane[7]) & (signbit((float)v16.lane[7]) != 0))) ? v16.lane[7] : v17.lane[7] } };
    const f32x8 v23 = (f32x8){ { rintf(v17.lane[0]), rintf(v17.lane[1]), rintf(v17.lane[2]), rintf(v17.lane[3]), rintf(v17.lane[4]), rintf(v17.lane[5]), rintf(v17.lane[6]), rintf(v17.lane[7]) } };
    const f32x8 v24 = (f32x8){ { 0x1.0000000000000p+2f, 0x1.0000000000000p+2f, 0x1.0000000000000p+2f, 0x1.0000000000000p+2f, 0x1.0000000000000p+2f, 0x1.0000000000000p+2f, 0x1.0000000000000p+2f, 0x1.0000000000000p+2f } };
    const f32x8 v25 = (f32x8){ { v23.lane[0] / 0x1.0000000000000p+2f, v23.lane[1] / 0x1.0000000000000p+2f, v23.lane[2] / 0x1.0000000000000p+2f, v23.lane[3] / 0x1.0000000000000p+2f, v23.lane[4] / 0x1.0000000000000p+2f, v23.lane[5] / 0x1.0000000000000p+2f, v23.lane[6] / 0x1.0000000000000p+2f, v23.lane[7] / 0x1.0000000000000p+2f } };
    const f32x8 v26 = (f32x8){ { v21.lane[0] ? v22.lane[0] : v25.lane[0], v21.lane[1] ? v22.lane[1] : v25.lane[1], v21.lane[2] ? v22.lane[2] : v25.lane[2], v21.lane[3] ? v22.lane[3] : v25.lane[3], v21.lane[4] ? v22.lane[4] : v25.lane[4], v21.lane[5] ? v22.lane[5] : v25.lane[5], v21.lane[6] ? v22.lane[6] : v25.lane[6], v21.lane[7] ? v22.lane[7] : v25.lane[7] } };
    data0[v15 + 0] = v26.lane[0];
    data0[v15 + 1] = v26.lane[1];
    data0[v15 + 2] = v26.lane[2];
    data0[v15 + 3] = v26.lane[3];
    data0[v15 + 4] = v26.lane[4];
    data0[v15 + 5] = v26.lane[5];
    data0[v15 + 6] = v26.lane[6];
    data0[v15 + 7] = v26.lane[7];
  }
}
