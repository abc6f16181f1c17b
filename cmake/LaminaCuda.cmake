# The CUDA language, and the target lamina_cuda_libraries with what the CUDA backend links.
if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 90)
endif()
find_program(LAMINA_NVCC nvcc PATHS /usr/local/cuda/bin $ENV{CUDA_HOME}/bin)
if(NOT LAMINA_NVCC)
  message(FATAL_ERROR "LAMINA_CUDA is on, but there is no nvcc in PATH, CUDA_HOME or /usr/local/cuda.")
endif()
set(CMAKE_CUDA_COMPILER ${LAMINA_NVCC})
enable_language(CUDA)
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
if(LAMINA_CCACHE AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${LAMINA_CCACHE})
endif()

find_package(CUDAToolkit 13 REQUIRED)
find_path(CUDNN_INCLUDE_DIR cudnn_graph.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_library(CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 HINTS ${CUDAToolkit_LIBRARY_DIR} ${CUDAToolkit_LIBRARY_ROOT}/lib)
find_library(CUBLASLT_LIBRARY NAMES cublasLt libcublasLt.so.13
  HINTS ${CUDAToolkit_LIBRARY_DIR} ${CUDAToolkit_LIBRARY_ROOT}/lib)
if(NOT CUDNN_INCLUDE_DIR OR NOT CUDNN_LIBRARY OR NOT CUBLASLT_LIBRARY)
  message(FATAL_ERROR "The CUDA backend needs cuDNN 9 and cuBLASLt: found ${CUDNN_INCLUDE_DIR}, ${CUDNN_LIBRARY}, "
    "${CUBLASLT_LIBRARY}. Set CUDNN_INCLUDE_DIR, CUDNN_LIBRARY or CUBLASLT_LIBRARY.")
endif()

add_library(lamina_cuda_libraries INTERFACE)
target_include_directories(lamina_cuda_libraries SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS} ${CUDNN_INCLUDE_DIR})
target_link_libraries(lamina_cuda_libraries INTERFACE CUDA::cudart ${CUBLASLT_LIBRARY} ${CUDNN_LIBRARY})
# fmt 9 and nvcc's front end disagree on consteval.
target_compile_definitions(lamina_cuda_libraries INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:FMT_CONSTEVAL=>)
