# SPDX-License-Identifier: MIT
# verbena_compile_fail_tests(MODULE): every tests/compile_fail/MODULE/RULE.cpp is a test that is compiled twice:
# without VERBENA_BAD it must compile, with it it must be refused, and the compiler's words must match the file's
# `// expect: REGEX` line. scripts/compile_fail.py does it, with the compiler and the flags of this build.

set(verbena_compile_fail_flags "${PROJECT_BINARY_DIR}/compile_fail_flags.txt")
set(includes "$<TARGET_PROPERTY:verbena_interface,INTERFACE_INCLUDE_DIRECTORIES>")
set(system_includes "$<TARGET_PROPERTY:verbena_rdma_headers,INTERFACE_INCLUDE_DIRECTORIES>")
set(definitions "$<TARGET_PROPERTY:verbena_interface,INTERFACE_COMPILE_DEFINITIONS>")
file(GENERATE OUTPUT "${verbena_compile_fail_flags}" CONTENT "\
-std=c++20
-Wall
-Wextra
-Werror
-I${PROJECT_SOURCE_DIR}
-I$<JOIN:${includes},\n-I>
$<$<BOOL:${system_includes}>:-isystem$<JOIN:${system_includes},\n-isystem>>
$<$<BOOL:${definitions}>:-D$<JOIN:${definitions},\n-D>>
")

# All cases use the library's headers: they are precompiled once.
set(verbena_compile_fail_command Python3::Interpreter "${PROJECT_SOURCE_DIR}/scripts/compile_fail.py"
  --compiler "${CMAKE_CXX_COMPILER}" --flags "${verbena_compile_fail_flags}"
  --precompiled "${PROJECT_BINARY_DIR}/compile_fail")
add_test(NAME compile_fail/headers
  COMMAND ${verbena_compile_fail_command} --precompile "${PROJECT_SOURCE_DIR}/include/verbena/verbena.hpp")
set_tests_properties(compile_fail/headers PROPERTIES
  LABELS compile_fail TIMEOUT 300 FIXTURES_SETUP compile_fail_headers)

function(verbena_compile_fail_tests module)
  file(GLOB cases CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/compile_fail/${module}/*.cpp")
  foreach(case IN LISTS cases)
    get_filename_component(rule "${case}" NAME_WE)
    add_test(NAME "compile_fail/${module}/${rule}"
      COMMAND ${verbena_compile_fail_command} "${case}")
    set_tests_properties("compile_fail/${module}/${rule}" PROPERTIES
      LABELS compile_fail TIMEOUT 120 FIXTURES_REQUIRED compile_fail_headers)
  endforeach()
endfunction()
