# SPDX-License-Identifier: MIT
# Installation rules: static library, headers, software device, CMake package, pkg-config file.
include(CMakePackageConfigHelpers)

set(verbena_cmake_dir "${CMAKE_INSTALL_LIBDIR}/cmake/verbena")
set(verbena_installed verbena verbena_interface)
if(VERBENA_NO_EXCEPTIONS)
  list(APPEND verbena_installed verbena_no_exceptions verbena_interface_no_exceptions)
endif()
install(TARGETS ${verbena_installed} EXPORT verbenaTargets
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" FILE_SET HEADERS DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(FILES include/verbena/asio.hpp DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/verbena")
install(DIRECTORY include/verbena/asio DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/verbena")
install(EXPORT verbenaTargets NAMESPACE verbena:: DESTINATION "${verbena_cmake_dir}")

configure_package_config_file(cmake/verbenaConfig.cmake.in "${PROJECT_BINARY_DIR}/verbenaConfig.cmake"
  INSTALL_DESTINATION "${verbena_cmake_dir}" PATH_VARS CMAKE_INSTALL_LIBDIR)
# Before 1.0 a minor release may change the interface.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/verbenaConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/verbenaConfig.cmake" "${PROJECT_BINARY_DIR}/verbenaConfigVersion.cmake"
  cmake/rdma_core.cmake cmake/rdma_core_bundled.cmake cmake/hwloc.cmake cmake/linked.cmake cmake/linked.cpp.in
  cmake/asio.cmake DESTINATION "${verbena_cmake_dir}")

# CMake 3.25 cannot build C++20 modules: the module is installed as a source.
install(FILES modules/verbena.cppm DESTINATION "${CMAKE_INSTALL_DATADIR}/verbena/modules")

# Paths in the .pc file are relative to the file, so an installed tree can be moved.
file(RELATIVE_PATH verbena_pc_prefix "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
string(REGEX REPLACE "/$" "" verbena_pc_prefix "${verbena_pc_prefix}")
set(verbena_pc_cflags "")
foreach(definition IN LISTS verbena_definitions)
  string(APPEND verbena_pc_cflags " -D${definition}")
endforeach()
set(verbena_pc_requires "")
if(NOT verbena_rdma_include IN_LIST CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES)
  string(APPEND verbena_pc_cflags " -isystem ${verbena_rdma_include}")
endif()
if(VERBENA_HAS_HWLOC)
  set(verbena_pc_requires "hwloc")
endif()
configure_file(cmake/verbena.pc.in "${PROJECT_BINARY_DIR}/verbena.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/verbena.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
