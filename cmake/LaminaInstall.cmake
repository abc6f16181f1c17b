# What `cmake --install` copies: the program lamina, and what find_package(lamina) finds, which is target lamina::lamina
# with the headers of include/lamina. The folders' libraries come along as lamina::base, lamina::tensor, ...; their
# headers do not.
include(CMakePackageConfigHelpers)

set(lamina_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/lamina)

add_library(lamina_api INTERFACE)
set_target_properties(lamina_api PROPERTIES EXPORT_NAME lamina)
target_include_directories(lamina_api INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
install(TARGETS lamina_api EXPORT laminaTargets)

set(library_folders ${LAMINA_FOLDERS})
list(REMOVE_ITEM library_folders cli)
foreach(folder ${library_folders})
  if(TARGET lamina_${folder})
    set_target_properties(lamina_${folder} PROPERTIES EXPORT_NAME ${folder})
    target_link_libraries(lamina_api INTERFACE lamina_${folder})
    install(TARGETS lamina_${folder} EXPORT laminaTargets)
  endif()
endforeach()

if(TARGET lamina_cli)
  install(TARGETS lamina_cli)
endif()
install(DIRECTORY include/lamina DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT laminaTargets NAMESPACE lamina:: DESTINATION ${lamina_package_dir})
if(MPI_CXX_FOUND)
  set(LAMINA_HAS_MPI ON)
else()
  set(LAMINA_HAS_MPI OFF)
endif()
configure_package_config_file(cmake/laminaConfig.cmake.in ${PROJECT_BINARY_DIR}/laminaConfig.cmake
  INSTALL_DESTINATION ${lamina_package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/laminaConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/laminaConfig.cmake ${PROJECT_BINARY_DIR}/laminaConfigVersion.cmake
  DESTINATION ${lamina_package_dir})
