# onlyonce_libraries: what the program links against. A missing one stops here, by its name.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
pkg_check_modules(ONLYONCE_DEPENDENCIES REQUIRED IMPORTED_TARGET
  librabbitmq>=0.11 hiredis>=0.14 yaml-0.1 libcjson libcrypto)

add_library(onlyonce_libraries INTERFACE)
target_link_libraries(onlyonce_libraries INTERFACE
  PkgConfig::ONLYONCE_DEPENDENCIES Threads::Threads)
