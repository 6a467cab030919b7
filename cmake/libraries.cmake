# onlyonce_libraries: what the program links against. A missing one stops here, by its name.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
pkg_check_modules(ONLYONCE_DEPENDENCIES REQUIRED IMPORTED_TARGET
  librabbitmq>=0.11 hiredis>=0.14 libpq sqlite3>=3.37 yaml-0.1 libcjson libmicrohttpd>=0.9.75 libssl
  libcrypto)

add_library(onlyonce_libraries INTERFACE)
target_link_libraries(onlyonce_libraries INTERFACE
  PkgConfig::ONLYONCE_DEPENDENCIES Threads::Threads)

# Debian 12's hiredis has no TLS; src/redis_tls.c then says so.
pkg_check_modules(ONLYONCE_REDIS_TLS IMPORTED_TARGET hiredis_ssl>=1.0 libssl)
if(ONLYONCE_REDIS_TLS_FOUND)
  target_link_libraries(onlyonce_libraries INTERFACE PkgConfig::ONLYONCE_REDIS_TLS)
  target_compile_definitions(onlyonce_libraries INTERFACE ONLYONCE_REDIS_TLS)
endif()

# Since 0.12 <amqp.h> only includes <rabbitmq-c/amqp.h> and warns of its own name, even as a system
# header; 0.11 knows no other name.
if(ONLYONCE_DEPENDENCIES_librabbitmq_VERSION VERSION_GREATER_EQUAL 0.12)
  target_compile_options(onlyonce_libraries INTERFACE
    $<$<C_COMPILER_ID:GNU>:-Wno-cpp>
    $<$<C_COMPILER_ID:Clang>:-Wno-\#warnings>)
endif()
