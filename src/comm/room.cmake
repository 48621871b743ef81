# The summation and copy loops are compiled once per CPU variant, with that variant's flags; which one runs is decided
# at start (comm_sum.c).
list(FILTER room_sources EXCLUDE REGEX "/comm/kernels/")
set(fw_comm_variants base)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|amd64|AMD64")
  list(APPEND fw_comm_variants avx2 avx512)
endif()
set(fw_comm_flags_avx2 -mavx2)
set(fw_comm_flags_avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mprefer-vector-width=512)
foreach(variant ${fw_comm_variants})
  add_library(fw_comm_kernels_${variant} OBJECT ${CMAKE_SOURCE_DIR}/src/comm/kernels/comm_sum_loops.c)
  target_include_directories(fw_comm_kernels_${variant} PRIVATE src)
  target_compile_definitions(fw_comm_kernels_${variant} PRIVATE FW_COMM_VARIANT=${variant})
  target_compile_options(fw_comm_kernels_${variant} PRIVATE -O3 ${fw_comm_flags_${variant}})
  list(APPEND room_sources $<TARGET_OBJECTS:fw_comm_kernels_${variant}>)
endforeach()
# Libraries of their own: cmake/cuda.cmake, cmake/mpi.cmake.
list(FILTER room_sources EXCLUDE REGEX "/comm/(nccl|mpi)/plugin/")
