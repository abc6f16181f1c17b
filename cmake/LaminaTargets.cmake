# Warnings and sanitizers of our own code, never of what links us.
add_library(lamina_build_flags INTERFACE)
set(lamina_warnings
  -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wold-style-cast
  -Wno-missing-field-initializers  # designated initialisers leave out what keeps its default
  $<$<BOOL:${LAMINA_WERROR}>:-Werror>)
target_compile_options(lamina_build_flags INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:${lamina_warnings}>"
  # nvcc's generated code breaks the pedantic ones.
  "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Wshadow;--diag-suppress=20012;$<$<BOOL:${LAMINA_WERROR}>:-Werror=all-warnings>>")
if(LAMINA_SANITIZE)
  list(JOIN LAMINA_SANITIZE "," sanitizers)
  target_compile_options(lamina_build_flags INTERFACE -fsanitize=${sanitizers} -fno-omit-frame-pointer -g)
  target_link_options(lamina_build_flags INTERFACE -fsanitize=${sanitizers})
  if("undefined" IN_LIST LAMINA_SANITIZE)
    target_compile_options(lamina_build_flags INTERFACE -fno-sanitize-recover=undefined)
  endif()
endif()

# lamina_folder(NAME SOURCES ... [PUBLIC ...] [PRIVATE ...])
# The library of one folder of src/: target lamina_NAME, alias lamina::NAME.
function(lamina_folder name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;PUBLIC;PRIVATE")
  add_library(lamina_${name} STATIC ${arg_SOURCES})
  add_library(lamina::${name} ALIAS lamina_${name})
  target_include_directories(lamina_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(lamina_${name} PUBLIC cxx_std_20)
  target_link_libraries(lamina_${name} PUBLIC ${arg_PUBLIC} PRIVATE ${arg_PRIVATE} $<BUILD_INTERFACE:lamina_build_flags>)
endfunction()

# lamina_test(NAME SOURCES ... LIBS ... [LABEL ...])
# A GoogleTest program lamina_NAME_tests whose cases ctest knows one by one as NAME.Suite.Case. The label is "unit", or
# one of gpu, multi_gpu, mpi, slow. The target gpu_tests builds all programs of the labels gpu and multi_gpu, in the
# folder of that name.
function(lamina_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "LABEL" "SOURCES;LIBS")
  if(NOT arg_LABEL)
    set(arg_LABEL unit)
  endif()
  add_executable(lamina_${name}_tests ${arg_SOURCES})
  target_include_directories(lamina_${name}_tests PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(lamina_${name}_tests PRIVATE
    ${arg_LIBS} lamina_test_data lamina_build_flags GTest::gmock GTest::gtest_main)
  if(arg_LABEL MATCHES "gpu$")
    set_target_properties(lamina_${name}_tests PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/gpu_tests)
    if(NOT TARGET gpu_tests)
      add_custom_target(gpu_tests)
    endif()
    add_dependencies(gpu_tests lamina_${name}_tests)
  endif()
  gtest_discover_tests(lamina_${name}_tests TEST_PREFIX "${name}." DISCOVERY_TIMEOUT 60
    PROPERTIES LABELS ${arg_LABEL})
endfunction()

# lamina_bench(NAME SOURCES ... LIBS ...)
# A benchmark program lamina_NAME_bench, run by the target run_benchmarks.
function(lamina_bench name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBS")
  add_executable(lamina_${name}_bench ${arg_SOURCES})
  target_link_libraries(lamina_${name}_bench PRIVATE ${arg_LIBS} lamina_build_flags benchmark::benchmark)
  target_compile_definitions(lamina_${name}_bench PRIVATE LAMINA_MODELS_DIR="${PROJECT_SOURCE_DIR}/models")
  set_property(GLOBAL APPEND PROPERTY LAMINA_BENCHMARKS lamina_${name}_bench)
endfunction()

# The target run_benchmarks, once all benchmarks are known.
function(lamina_add_run_benchmarks)
  get_property(benchmarks GLOBAL PROPERTY LAMINA_BENCHMARKS)
  list(TRANSFORM benchmarks PREPEND "COMMAND;")
  add_custom_target(run_benchmarks ${benchmarks} USES_TERMINAL)
endfunction()
