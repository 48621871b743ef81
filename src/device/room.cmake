# The kernels of the cpu device are compiled once per CPU variant, with that variant's flags; which one runs
# is decided at start (cpu/cpu_variant.c). Sums keep their order: contraction to FMA is the only liberty.
list(FILTER room_sources EXCLUDE REGEX "/device/cpu/kernels/")
# Shared by the GPU plugin and the emulation, and of no use without one of them (simt/simt.cmake).
list(FILTER room_sources EXCLUDE REGEX "/device/(simt/|cuda/host/|cuda/cudnn/|cuda/cuda_ops)")
file(GLOB fw_cpu_kernel_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/device/cpu/kernels/*.c)
set(fw_cpu_variants base)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|amd64|AMD64")
  list(APPEND fw_cpu_variants avx2 avx512)
endif()
set(fw_cpu_flags_avx2 -mavx2 -mfma -mf16c -mbmi -mbmi2)
set(fw_cpu_flags_avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma -mf16c -mbmi -mbmi2
    -mprefer-vector-width=512)
foreach(variant ${fw_cpu_variants})
  add_library(fw_cpu_kernels_${variant} OBJECT ${fw_cpu_kernel_sources})
  target_include_directories(fw_cpu_kernels_${variant} PRIVATE src)
  target_compile_definitions(fw_cpu_kernels_${variant} PRIVATE FW_CPU_VARIANT=${variant})
  target_compile_options(fw_cpu_kernels_${variant} PRIVATE -O3 ${fw_cpu_flags_${variant}} -ffp-contract=fast)
  list(APPEND room_sources $<TARGET_OBJECTS:fw_cpu_kernels_${variant}>)
endforeach()
