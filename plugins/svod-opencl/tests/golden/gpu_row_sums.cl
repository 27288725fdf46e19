#pragma OPENCL FP_CONTRACT ON
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL EXTENSION cl_khr_fp16 : enable

__kernel void kernel_name(__global float *data0_block, ulong data0_offset, __global const float *data1_block, ulong data1_offset) {
  __global float *restrict data0 = (__global float *)((__global uchar *)data0_block + data0_offset);
  __global const float *restrict data1 = (__global const float *)((__global const uchar *)data1_block + data1_offset);
  float4 reg0[1];
  __local float local0[32];
  float reg1[1];
  __local float local1[4];
  float reg2[1];
  const int v1 = (int)get_group_id(0);
  const int v2 = (int)get_local_id(0);
  const bool v3 = v2 == 0;
  reg2[0] = 0x0.0p+0f;
  const bool v4 = v2 < 4;
  reg1[0] = 0x0.0p+0f;
  const float4 v5 = (float4)(0x0.0p+0f);
  reg0[0] = v5;
  for (int i6 = 0; i6 < 2; i6++) {
    const float4 v7 = reg0[0];
    const int v8 = (int)((uint)i6 << 7);
    const int v9 = v1 * 256 + v8;
    const int v10 = v2 * 4 + v9;
    const float4 v11 = vload4(0, &data1[v10 + 0] + 0);
    const float4 v12 = v7 + v11;
    reg0[0] = v12;
  }
  const float4 v13 = reg0[0];
  const float v14 = v13.s0 + v13.s2;
  const float v15 = v13.s1 + v13.s3;
  const float v16 = v14 + v15;
  local0[v2] = v16;
  barrier(CLK_LOCAL_MEM_FENCE);
  const int v17 = v2 & 3;
  for (int i18 = 0; i18 < 8; i18++) {
    const float v19 = reg1[0];
    const int v20 = i18 * 4 + v17;
    const float v21 = local0[v20];
    const float v22 = v19 + v21;
    reg1[0] = v22;
  }
  const float v23 = reg1[0];
  if (v4) local1[v2] = v23;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int i24 = 0; i24 < 4; i24++) {
    const float v25 = reg2[0];
    const float v26 = local1[i24];
    const float v27 = v25 + v26;
    reg2[0] = v27;
  }
  const float v28 = reg2[0];
  if (v3) data0[v1] = v28;
}
