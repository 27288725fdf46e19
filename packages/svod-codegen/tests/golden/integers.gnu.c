#include <math.h>
#include <stdbool.h>
#include <stdint.h>

void kernel(void *const *buffers, const int64_t *values, int64_t core_id) {
  uint8_t *restrict data0 = buffers[0];
  int32_t *restrict data1 = buffers[1];
  int64_t *restrict data2 = buffers[2];
  int32_t *restrict data3 = buffers[3];
  float *restrict data4 = buffers[4];
  bool *restrict data5 = buffers[5];
  (void)buffers;
  (void)values;
  (void)core_id;
  for (int32_t i1 = 0; i1 < 16; i1++) {
    const int32_t v2 = data3[i1];
    const int32_t v3 = (int32_t)(v2 / 7);
    const int32_t v4 = (int32_t)(v2 % 5);
    const int32_t v5 = (int32_t)(v3 ^ v4);
    const int32_t v6 = (int32_t)((uint32_t)v2 << 3);
    const int32_t v7 = (int32_t)(v2 & 12);
    const int32_t v8 = (int32_t)(v7 >> 2);
    const int32_t v9 = (int32_t)(v6 | v8);
    const float v10 = data4[i1];
    const uint8_t v11 = v10 >= 0x1.0000000000000p+8f ? 255 : v10 > 0x0.0p+0f ? (uint8_t)v10 : v10 <= 0x0.0p+0f ? 0 : 0;
    data0[i1] = v11;
    const int32_t v12 = (int32_t)((uint32_t)v5 + (uint32_t)v9);
    const int32_t v13 = v2 > 0 ? v2 : 0;
    const int32_t v14 = (uint64_t)v13 < 32 ? (int32_t)(v2 >> v13) : (int32_t)(v2 < 0 ? -1 : 0);
    const int32_t v15 = (int32_t)((uint32_t)v12 + (uint32_t)v14);
    const int32_t v16 = (uint64_t)v13 < 32 ? (int32_t)((uint32_t)v2 << v13) : (int32_t)(0);
    const int32_t v17 = (int32_t)((uint32_t)v15 + (uint32_t)v16);
    data1[i1] = v17;
    const int64_t v18 = (int64_t)v2;
    const int64_t v19 = v18 * 3000000000ll;
    data2[i1] = v19;
    const bool v20 = v2 <= 4;
    const bool v21 = v2 != 0;
    const bool v22 = v20 ^ v21;
    data5[i1] = v22;
  }
}
