# SPDX-License-Identifier: MIT
# Libraries of which only the headers are needed to build: the module `net` and the software device load them at run time.
# Each is optional.
# - PMIx, by which processes of mpirun and prte find each other. Without it, `from_environment()` needs MASTER_ADDR or
#   VERBENA_STORE.
# - libcurl, through which groups use etcd. Without it, VERBENA_ETCD is an error.
# - libcrypto of OpenSSL 3, with which soft0 authenticates packets. Without it, VERBENA_SOFTDEV_WIRE_KEY_FILE is an error.
include_guard(GLOBAL)

# verbena_run_time_library(NAME OPTION PACKAGE HEADER MESSAGE): looks for HEADER if the option is AUTO or ON. Sets
# VERBENA_HAS_NAME, and creates the target verbena_name with the definition VERBENA_WITH_NAME. MESSAGE: why ON fails.
function(verbena_run_time_library name option package header message)
  set(VERBENA_HAS_${name} FALSE PARENT_SCOPE)
  if(NOT ${option})
    return()
  endif()
  find_package(PkgConfig QUIET)
  if(PKG_CONFIG_FOUND)
    pkg_check_modules(VERBENA_PC_${name} QUIET ${package})
  endif()
  find_path(VERBENA_${name}_INCLUDE_DIR ${header} HINTS ${VERBENA_PC_${name}_INCLUDE_DIRS})
  mark_as_advanced(VERBENA_${name}_INCLUDE_DIR)
  if(VERBENA_${name}_INCLUDE_DIR)
    string(TOLOWER ${name} lower)
    set(VERBENA_HAS_${name} TRUE PARENT_SCOPE)
    add_library(verbena_${lower} INTERFACE)
    target_compile_definitions(verbena_${lower} INTERFACE VERBENA_WITH_${name}=1)
    target_include_directories(verbena_${lower} SYSTEM INTERFACE "${VERBENA_${name}_INCLUDE_DIR}")
  elseif(NOT ${option} STREQUAL "AUTO")
    message(FATAL_ERROR "${header} was not found. ${message}")
  endif()
endfunction()

verbena_run_time_library(PMIX VERBENA_PMIX pmix pmix.h
  "Install libpmix-dev (Debian, Ubuntu), pmix-devel (Fedora) or openpmix (Arch), or build without PMIx with -DVERBENA_PMIX=OFF")
verbena_run_time_library(CURL VERBENA_ETCD libcurl curl/curl.h
  "Install libcurl4-openssl-dev (Debian, Ubuntu), libcurl-devel (Fedora) or curl (Arch), or build without etcd with \
-DVERBENA_ETCD=OFF")
verbena_run_time_library(OPENSSL VERBENA_OPENSSL libcrypto openssl/core.h
  "Install libssl-dev (Debian, Ubuntu), openssl-devel (Fedora) or openssl (Arch), or build without authenticated packets with \
-DVERBENA_OPENSSL=OFF")
