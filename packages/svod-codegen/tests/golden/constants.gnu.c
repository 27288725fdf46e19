#include <math.h>
#include <stdbool.h>
#include <stdint.h>

typedef float f32x8 __attribute__((vector_size(32)));
typedef float f32x8_in_memory __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t mf32x8 __attribute__((vector_size(32)));
typedef double f64x2 __attribute__((vector_size(16)));
typedef double f64x2_in_memory __attribute__((vector_size(16), aligned(8), may_alias));
typedef int64_t mf64x2 __attribute__((vector_size(16)));
typedef int64_t i64x2 __attribute__((vector_size(16)));
typedef int64_t i64x2_in_memory __attribute__((vector_size(16), aligned(8), may_alias));
typedef int64_t mi64x2 __attribute__((vector_size(16)));
typedef uint64_t ui64x2 __attribute__((vector_size(16)));
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
  const f32x8 v1 = (f32x8){ 0x0.0p+0f, (-0x0.0p+0f), 0x1.99999a0000000p-4f, (-0x1.e000000000000p+1f), INFINITY, (-INFINITY), 0x1.fffffe0000000p+127f, 0x1.0000000000000p-149f };
  *(f32x8_in_memory *)(&data0[0 + 0]) = v1;
  const f64x2 v2 = (f64x2){ 0x1.999999999999ap-4, (-0x1.fffffffffffffp+1023) };
  *(f64x2_in_memory *)(&data1[0 + 0]) = v2;
  const i64x2 v3 = (i64x2){ (-9223372036854775807ll - 1), 9223372036854775807ll };
  *(i64x2_in_memory *)(&data2[0 + 0]) = v3;
  data3[0] = 18446744073709551615ull;
  data4[0] = (-2147483647 - 1);
  data5[0] = true;
}
