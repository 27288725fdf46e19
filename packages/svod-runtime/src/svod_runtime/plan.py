"""`ExecutionPlan`: everything that one computation needs, prepared once and executed many times.

    builder = ExecutionPlanBuilder("CPU")
    out = builder.add_buffer(ast_id, buffer)              # -> index of the buffer in the plan
    builder.map_buffer(other_ast_id, out)                 # a second name of the same buffer
    builder.add_op(PreparedKernel(...))                   # in schedule order
    builder.add_op(op, instance_dependencies=(0, 3))      # and must run after ops 0 and 3 of the plan
    builder.set_output_buffers([out])
    builder.add_alias_ids([...])                          # ids to hand to release_*'s callback as well
    plan = builder.build()

    plan.execute()
    plan.execute_with_vars({"n": 7})
    for profile in plan.execute_profiled(): ...
    plan.output_buffer                                    # or output_buffer_at(1), output_buffers, num_outputs
    plan.buffer(ast_id).copyin(data)                      # new input data, in place
    plan.replace_buffer(index, buffer)                    # another buffer of equal size, dtype and device
    plan.kernels()                                        # name, source, device, sizes, buffers of each kernel
    plan.release_intermediate_buffers(registry.remove)

Executing allocates nothing, and a run of kernels on a device with a batch launcher is one foreign call.
"""
