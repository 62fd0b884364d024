# SPDX-License-Identifier: MIT
# Fetches a source release of rdma-core and copies its headers into the layout of an installation. Compiles nothing.
# Limitation: the download was never tested; the tests use a local archive with the same layout.
#
#   VERBENA_RDMA_CORE_URL     URL of the archive; the default is the project's release page
#   VERBENA_RDMA_CORE_SHA256  hash of the archive. There is no default because no hash was verified: you must supply it.

set(VERBENA_RDMA_CORE_URL
  "https://github.com/linux-rdma/rdma-core/releases/download/v44.0/rdma-core-44.0.tar.gz"
  CACHE STRING "Archive of rdma-core's sources for VERBENA_RDMA_CORE=bundled")
set(VERBENA_RDMA_CORE_SHA256 "" CACHE STRING "SHA-256 of that archive")

# Pairs of path in the installation and path in the source tree.
set(verbena_bundled_headers
  infiniband/arch.h=libibverbs/arch.h
  infiniband/opcode.h=libibverbs/opcode.h
  infiniband/sa-kern-abi.h=libibverbs/sa-kern-abi.h
  infiniband/sa.h=libibverbs/sa.h
  infiniband/verbs.h=libibverbs/verbs.h
  infiniband/verbs_api.h=libibverbs/verbs_api.h
  infiniband/tm_types.h=libibverbs/tm_types.h
  infiniband/ib_user_ioctl_verbs.h=kernel-headers/rdma/ib_user_ioctl_verbs.h
  infiniband/ib.h=librdmacm/ib.h
  infiniband/efadv.h=providers/efa/efadv.h
  infiniband/mlx5dv.h=providers/mlx5/mlx5dv.h
  infiniband/mlx5_api.h=providers/mlx5/mlx5_api.h
  infiniband/mlx5_user_ioctl_verbs.h=kernel-headers/rdma/mlx5_user_ioctl_verbs.h
  rdma/rdma_cma.h=librdmacm/rdma_cma.h
  rdma/rdma_cma_abi.h=librdmacm/rdma_cma_abi.h
  rdma/rdma_verbs.h=librdmacm/rdma_verbs.h
  rdma/rsocket.h=librdmacm/rsocket.h
)

function(verbena_fetch_rdma_core result)
  if(NOT VERBENA_RDMA_CORE_SHA256)
    message(FATAL_ERROR "VERBENA_RDMA_CORE=bundled needs -DVERBENA_RDMA_CORE_SHA256=HASH of the archive\n"
      "  ${VERBENA_RDMA_CORE_URL}\nTake it from a source that you trust; Verbena ships none because it could not verify one.")
  endif()
  include(FetchContent)
  FetchContent_Declare(verbena_rdma_core
    URL "${VERBENA_RDMA_CORE_URL}" URL_HASH "SHA256=${VERBENA_RDMA_CORE_SHA256}")
  FetchContent_GetProperties(verbena_rdma_core)
  if(NOT verbena_rdma_core_POPULATED)
    FetchContent_Populate(verbena_rdma_core)  # populates only: rdma-core is not built
  endif()
  set(include "${CMAKE_CURRENT_BINARY_DIR}/verbena_rdma_core/include")
  foreach(pair IN LISTS verbena_bundled_headers)
    string(REGEX REPLACE "=.*" "" installed "${pair}")
    string(REGEX REPLACE ".*=" "" source "${pair}")
    if(NOT EXISTS "${verbena_rdma_core_SOURCE_DIR}/${source}")
      message(FATAL_ERROR "The archive of VERBENA_RDMA_CORE_URL has no ${source}: is it a source release of rdma-core?")
    endif()
    configure_file("${verbena_rdma_core_SOURCE_DIR}/${source}" "${include}/${installed}" COPYONLY)
  endforeach()
  set(${result} "${include}" PARENT_SCOPE)
endfunction()
