# The plugins for NVIDIA GPUs: libfinewire_cuda.so (the device) and libfinewire_nccl.so (collectives between GPUs). Built
# where nvcc and the libraries are; the program itself never needs them. Host code is C, kernels are compiled by nvcc into
# objects that need no C++ library. libcuda is not linked: its stub would break dlopen, and the runtime opens the driver.
set(FW_CUDA_ARCHITECTURES "90" CACHE STRING "GPUs to compile for, or `all` (80 86 89 90 100 120)")
option(FW_CUDA "build the plugins for NVIDIA GPUs where nvcc is" ON)

# What both sides of a plugin share: any change makes them another build.
set(shared base/status.h base/dtype.h base/log.h base/threads.h device/device.h device/ops.def device/adamw_options.h
    device/step_options.h quant/quant_scales.h
    device/gpu.h device/plugin_host.h device/cuda_loader.h comm/nccl/nccl_plugin.h comm/mpi/mpi_plugin.h)
set(texts)
foreach(header ${shared})
  file(SHA256 ${CMAKE_SOURCE_DIR}/src/${header} hash)
  string(APPEND texts ${hash})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${header})
endforeach()
string(SHA256 hash "${texts}")
string(SUBSTRING ${hash} 0 12 hash)
set(FW_PLUGIN_BUILD "${PROJECT_VERSION}-${hash}")
set_source_files_properties(src/device/plugin_host.c PROPERTIES COMPILE_DEFINITIONS
                            FW_PLUGIN_BUILD="${FW_PLUGIN_BUILD}")

# cuDNN: headers for the plugin and for tests, which need no GPU and no nvcc. Its library is looked for when it is used.
find_path(FW_CUDNN_INCLUDE cudnn_graph.h HINTS ENV CUDNN_HOME ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda
          PATH_SUFFIXES include)
find_path(FW_CUDART_INCLUDE cuda_runtime_api.h HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda
          PATH_SUFFIXES include)
find_library(FW_CUDNN_LIBRARY cudnn HINTS ENV CUDNN_HOME ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda
             PATH_SUFFIXES lib64 lib)
set(FW_CUDNN_SOURCES)
if(FW_CUDNN_INCLUDE AND FW_CUDART_INCLUDE)
  file(GLOB FW_CUDNN_SOURCES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/device/cuda/cudnn/*.c)
else()
  message(STATUS "GPUs: cuDNN's headers are not installed; attention by finewire's own kernels only")
endif()

set(FW_CUDA_MISSING)
if(NOT FW_CUDA)
  set(FW_CUDA_MISSING "FW_CUDA is off")
elseif(FW_SANITIZE OR FW_FUZZ OR CMAKE_CROSSCOMPILING)
  set(FW_CUDA_MISSING "not built with sanitizers or for another machine")
else()
  find_program(FW_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
  if(FW_NVCC)
    file(REAL_PATH ${FW_NVCC} real)
    get_filename_component(root ${real} DIRECTORY)
    get_filename_component(root ${root} DIRECTORY)
    find_path(FW_CUDA_INCLUDE cublasLt.h HINTS ${root}/include)
    find_library(FW_CUDART cudart HINTS ${root} PATH_SUFFIXES lib64 lib)
    find_library(FW_CUBLASLT cublasLt HINTS ${root} PATH_SUFFIXES lib64 lib)
    find_path(FW_NCCL_INCLUDE nccl.h HINTS ${root}/include)
    find_library(FW_NCCL nccl HINTS ${root} PATH_SUFFIXES lib64 lib)
  endif()
  if(NOT FW_NVCC)
    set(FW_CUDA_MISSING "there is no nvcc")
  elseif(NOT FW_CUDA_INCLUDE OR NOT FW_CUDART OR NOT FW_CUBLASLT)
    set(FW_CUDA_MISSING "cuBLASLt or the CUDA runtime is not installed beside nvcc")
  endif()
endif()

# fw_add_plugin(TARGET NAME SYMBOL DEFINITIONS SOURCES...): a shared library that shows one symbol.
function(fw_add_plugin target symbol)
  cmake_parse_arguments(arg "" "" "DEFINITIONS;INCLUDES;SOURCES;LIBRARIES" ${ARGN})
  set(script ${CMAKE_BINARY_DIR}/${target}.version)
  file(WRITE ${script} "{ global: ${symbol}; local: *; };\n")
  add_library(${target} MODULE ${arg_SOURCES})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${target} C_VISIBILITY_PRESET hidden LINKER_LANGUAGE C
                        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR} LINK_DEPENDS ${script})
  target_include_directories(${target} PRIVATE src)
  target_include_directories(${target} SYSTEM PRIVATE ${arg_INCLUDES})
  target_compile_definitions(${target} PRIVATE FW_PLUGIN_BUILD="${FW_PLUGIN_BUILD}" ${arg_DEFINITIONS})
  target_link_options(${target} PRIVATE -Wl,--no-undefined -Wl,--version-script=${script})
  target_link_libraries(${target} PRIVATE ${arg_LIBRARIES} Threads::Threads m)
endfunction()

if(NOT FW_CUDA_MISSING)
  string(REPLACE " " ";" archs "${FW_CUDA_ARCHITECTURES}")
  if(archs STREQUAL "all")
    set(archs 80 86 89 90 100 120)
  endif()
  set(gencode)
  foreach(arch ${archs})
    list(APPEND gencode -gencode arch=compute_${arch},code=sm_${arch})
  endforeach()
  string(REPLACE ";" " " FW_CUDA_ARCHITECTURE_TEXT "${archs}")
  file(GLOB kernels CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/device/cuda/kernels/*.cu)
  set(objects)
  foreach(kernel ${kernels})
    get_filename_component(name ${kernel} NAME_WE)
    set(object ${CMAKE_BINARY_DIR}/kernels/${name}.o)
    add_custom_command(
      OUTPUT ${object}
      COMMAND ${CMAKE_SOURCE_DIR}/tools/compile_kernel --spills ${CMAKE_SOURCE_DIR}/src/device/cuda/kernels/spills.txt
              src/device/cuda/kernels/${name}.cu -- ${FW_NVCC} -std=c++17 -O3 ${gencode} -I${CMAKE_SOURCE_DIR}/src
              -Xcompiler -fPIC,-fvisibility=hidden,-fno-exceptions,-fno-threadsafe-statics,-fno-rtti,-Wall,-Wextra
              -Xptxas -v -MD -MF ${object}.d -c ${kernel} -o ${object}
      DEPENDS ${kernel} ${CMAKE_SOURCE_DIR}/tools/compile_kernel ${CMAKE_SOURCE_DIR}/src/device/cuda/kernels/spills.txt
      DEPFILE ${object}.d
      COMMENT "nvcc ${name}.cu (sm_${FW_CUDA_ARCHITECTURE_TEXT})" VERBATIM)
    list(APPEND objects ${object})
    set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  endforeach()
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/kernels)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/device/cuda/host/*.c)
  set(definitions FW_CUDA_ARCHITECTURES="${FW_CUDA_ARCHITECTURE_TEXT}")
  set(includes ${FW_CUDA_INCLUDE})
  if(FW_CUDNN_SOURCES)
    list(APPEND definitions FW_HAS_CUDNN=1)
    list(APPEND includes ${FW_CUDNN_INCLUDE})
  endif()
  fw_add_plugin(libfinewire_cuda finewire_cuda_plugin
                SOURCES ${sources} ${FW_CUDNN_SOURCES} src/device/cuda/cuda_ops.c
                        src/device/cuda/cuda_ops_adapter.c src/device/cuda/cuda_ops_optimizer.c ${objects}
                DEFINITIONS ${definitions} INCLUDES ${includes} LIBRARIES ${FW_CUDART} ${FW_CUBLASLT} dl)
  set_target_properties(libfinewire_cuda PROPERTIES PREFIX "")
  add_custom_target(cuda DEPENDS libfinewire_cuda)
  if(FW_NCCL AND FW_NCCL_INCLUDE)
    fw_add_plugin(libfinewire_nccl finewire_nccl_plugin SOURCES src/comm/nccl/plugin/nccl_plugin.c
                  src/device/cuda/host/plugin_base.c src/base/dtype.c INCLUDES ${FW_CUDA_INCLUDE} ${FW_NCCL_INCLUDE}
                  LIBRARIES ${FW_CUDART} ${FW_NCCL})
    set_target_properties(libfinewire_nccl PROPERTIES PREFIX "")
    add_dependencies(cuda libfinewire_nccl)
  else()
    message(STATUS "GPUs: NCCL is not installed beside nvcc; one GPU a job only")
  endif()
else()
  message(STATUS "GPUs: no plugin, ${FW_CUDA_MISSING}")
  add_custom_target(cuda COMMAND ${CMAKE_COMMAND} -E echo "make cuda: ${FW_CUDA_MISSING}; nothing was built"
                    COMMAND false VERBATIM)
endif()
