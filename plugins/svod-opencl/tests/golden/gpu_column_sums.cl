#pragma OPENCL FP_CONTRACT ON
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL EXTENSION cl_khr_fp16 : enable

__kernel void kernel_name(__global float *data0_block, ulong data0_offset, __global const float *data1_block, ulong data1_offset) {
  __global float *restrict data0 = (__global float *)((__global uchar *)data0_block + data0_offset);
  __global const float *restrict data1 = (__global const float *)((__global const uchar *)data1_block + data1_offset);
  float reg0[1];
  __local float local0[256];
  float reg1[1];
  const int v1 = (int)get_group_id(0);
  const int v2 = (int)get_local_id(0);
  const int v3 = v1 * 32 + v2;
  const int v4 = (int)get_local_id(1);
  const bool v5 = v4 == 0;
  reg1[0] = 0x0.0p+0f;
  const int v6 = v4 * 32 + v2;
  reg0[0] = 0x0.0p+0f;
  for (int i7 = 0; i7 < 32; i7++) {
    const float v8 = reg0[0];
    const int v9 = (int)((uint)i7 << 12);
    const int v10 = v1 * 32 + v9;
    const int v11 = v10 + v2;
    const int v12 = v4 * 512 + v11;
    const float v13 = data1[v12];
    const float v14 = v8 + v13;
    reg0[0] = v14;
  }
  const float v15 = reg0[0];
  local0[v6] = v15;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int i16 = 0; i16 < 8; i16++) {
    const float v17 = reg1[0];
    const int v18 = i16 * 32 + v2;
    const float v19 = local0[v18];
    const float v20 = v17 + v19;
    reg1[0] = v20;
  }
  const float v21 = reg1[0];
  if (v5) data0[v3] = v21;
}
