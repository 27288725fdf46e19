#pragma OPENCL FP_CONTRACT ON
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL EXTENSION cl_khr_fp16 : enable

__kernel void kernel_name(__global float *data0_block, ulong data0_offset, __global const float *data1_block, ulong data1_offset) {
  __global float *restrict data0 = (__global float *)((__global uchar *)data0_block + data0_offset);
  __global const float *restrict data1 = (__global const float *)((__global const uchar *)data1_block + data1_offset);
  float reg0[1];
  float reg1[1];
  __local float local0[256];
  float reg2[1];
  const int v1 = (int)get_group_id(0);
  const int v2 = (int)get_local_id(0);
  const int v3 = v1 * 32 + v2;
  const int v4 = (int)get_local_id(1);
  const bool v5 = v4 == 0;
  reg2[0] = 0x0.0p+0f;
  const int v6 = v4 * 32 + v2;
  reg1[0] = 0x0.0p+0f;
  for (int i7 = 0; i7 < 4; i7++) {
    const float v8 = reg1[0];
    reg0[0] = 0x0.0p+0f;
    for (int i9 = 0; i9 < 8; i9++) {
      const float v10 = reg0[0];
      const int v11 = i7 * 8 + i9;
      const int v12 = (int)((uint)v11 << 12);
      const int v13 = v1 * 32 + v12;
      const int v14 = v13 + v2;
      const int v15 = v4 * 512 + v14;
      const float v16 = data1[v15];
      const float v17 = v10 + v16;
      reg0[0] = v17;
    }
    const float v18 = reg0[0];
    const float v19 = v8 + v18;
    reg1[0] = v19;
  }
  const float v20 = reg1[0];
  local0[v6] = v20;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int i21 = 0; i21 < 8; i21++) {
    const float v22 = reg2[0];
    const int v23 = i21 * 32 + v2;
    const float v24 = local0[v23];
    const float v25 = v22 + v24;
    reg2[0] = v25;
  }
  const float v26 = reg2[0];
  if (v5) data0[v3] = v26;
}
