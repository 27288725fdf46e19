#include <math.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct { float lane[8]; } f32x8;
typedef struct { double lane[2]; } f64x2;
typedef struct { int64_t lane[2]; } i64x2;
void kernel(void *const *buffers, const int64_t *values, int64_t core_id) {
  float *restrict data0 = buffers[0];
  double *restrict data1 = buffers[1];
  int64_t *restrict data2 = buffers[2];
  uint64_t *restrict data3 = buffers[3];
  int32_t *restrict data4 = buffers[4];
  bool *restrict data5 = buffers[5];
  (void)buffers;
  (void)values;
  (void)core_id;
  const f32x8 v1 = (f32x8){ { 0x0.0p+0f, (-0x0.0p+0f), 0x1.99999a0000000p-4f, (-0x1.e000000000000p+1f), INFINITY, (-INFINITY), 0x1.fffffe0000000p+127f, 0x1.0000000000000p-149f } };
  data0[0 + 0] = 0x0.0p+0f;
  data0[0 + 1] = (-0x0.0p+0f);
  data0[0 + 2] = 0x1.99999a0000000p-4f;
  data0[0 + 3] = (-0x1.e000000000000p+1f);
  data0[0 + 4] = INFINITY;
  data0[0 + 5] = (-INFINITY);
  data0[0 + 6] = 0x1.fffffe0000000p+127f;
  data0[0 + 7] = 0x1.0000000000000p-149f;
  const f64x2 v2 = (f64x2){ { 0x1.999999999999ap-4, (-0x1.fffffffffffffp+1023) } };
  data1[0 + 0] = 0x1.999999999999ap-4;
  data1[0 + 1] = (-0x1.fffffffffffffp+1023);
  const i64x2 v3 = (i64x2){ { (-9223372036854775807ll - 1), 9223372036854775807ll } };
  data2[0 + 0] = (-9223372036854775807ll - 1);
  data2[0 + 1] = 9223372036854775807ll;
  data3[0] = 18446744073709551615ull;
  data4[0] = (-2147483647 - 1);
  data5[0] = true;
}
