# SPDX-License-Identifier: MIT
# Finds the headers of rdma-core. Nothing is linked: the tables are filled at run time.
find_package(PkgConfig QUIET)
add_library(verbena_rdma_headers INTERFACE)
if(VERBENA_RDMA_CORE_ROOT)
  target_include_directories(verbena_rdma_headers SYSTEM INTERFACE "${VERBENA_RDMA_CORE_ROOT}/include")
else()
  find_path(VERBENA_VERBS_INCLUDE_DIR infiniband/verbs.h REQUIRED)
  target_include_directories(verbena_rdma_headers SYSTEM INTERFACE "${VERBENA_VERBS_INCLUDE_DIR}")
endif()
