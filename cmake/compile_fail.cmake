# SPDX-License-Identifier: MIT
# verbena_compile_fail_tests(MODULE): adds a test for each tests/compile_fail/MODULE/RULE.cpp. The test compiles the file
# twice with the compiler and the flags of this build (scripts/compile_fail.py). Without VERBENA_BAD the file must compile.
# With VERBENA_BAD the compiler must refuse it, and the diagnostics must match the `// expect: REGEX` line of the file.
# verbena_compile_fail_prepare(): adds the test compile_fail/prepare, which compiles all cases as one unit. It runs before the
# others and saves most of their compilations.

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

set(verbena_compile_fail_command Python3::Interpreter "${PROJECT_SOURCE_DIR}/scripts/compile_fail.py"
  --compiler "${CMAKE_CXX_COMPILER}" --flags "${verbena_compile_fail_flags}"
  --prepared "${PROJECT_BINARY_DIR}/compile_fail")

function(verbena_compile_fail_tests module)
  file(GLOB cases CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/compile_fail/${module}/*.cpp")
  foreach(case IN LISTS cases)
    get_filename_component(rule "${case}" NAME_WE)
    add_test(NAME "compile_fail/${module}/${rule}"
      COMMAND ${verbena_compile_fail_command} "${case}")
    set_tests_properties("compile_fail/${module}/${rule}" PROPERTIES
      LABELS compile_fail TIMEOUT 120 FIXTURES_REQUIRED compile_fail_cases)
  endforeach()
  set_property(GLOBAL APPEND PROPERTY VERBENA_COMPILE_FAIL_CASES ${cases})
endfunction()

function(verbena_compile_fail_prepare)
  get_property(cases GLOBAL PROPERTY VERBENA_COMPILE_FAIL_CASES)
  add_test(NAME compile_fail/prepare COMMAND ${verbena_compile_fail_command} --prepare ${cases})
  set_tests_properties(compile_fail/prepare PROPERTIES
    LABELS compile_fail TIMEOUT 300 FIXTURES_SETUP compile_fail_cases)
endfunction()
