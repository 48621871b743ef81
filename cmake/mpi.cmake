# The plugin libfinewire_mpi.so: messages between CPU ranks by MPI. Built where an MPI library with its header is; the
# program itself never needs it.
option(FW_MPI "build the plugin for MPI where its library is" ON)

set(FW_MPI_MISSING)
if(NOT FW_MPI)
  set(FW_MPI_MISSING "FW_MPI is off")
elseif(FW_SANITIZE OR FW_FUZZ OR CMAKE_CROSSCOMPILING)
  set(FW_MPI_MISSING "not built with sanitizers or for another machine")
else()
  pkg_check_modules(MPI QUIET IMPORTED_TARGET ompi-c)
  if(NOT MPI_FOUND)
    set(FW_MPI_MISSING "Open MPI (libopenmpi-dev) is not installed")
  endif()
endif()

if(NOT FW_MPI_MISSING)
  fw_add_plugin(libfinewire_mpi finewire_mpi_plugin SOURCES src/comm/mpi/plugin/mpi_plugin.c
                src/device/cuda/host/plugin_base.c INCLUDES ${MPI_INCLUDE_DIRS} LIBRARIES PkgConfig::MPI)
  set_target_properties(libfinewire_mpi PROPERTIES PREFIX "")
else()
  message(STATUS "MPI: no plugin, ${FW_MPI_MISSING}")
endif()
