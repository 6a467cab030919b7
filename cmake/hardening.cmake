# onlyonce_hardening: either the sanitizers, or what a daemon on a network should be built with.
include(CheckPIESupported)
check_pie_supported(LANGUAGES C)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

add_library(onlyonce_hardening INTERFACE)
if(ONLYONCE_SANITIZE)
  string(REPLACE ";" "," sanitizers "${ONLYONCE_SANITIZE}")
  target_compile_options(onlyonce_hardening INTERFACE
    -fsanitize=${sanitizers} -fno-sanitize-recover=all -fno-omit-frame-pointer -O1 -g)
  # gcc sees null dereferences in the sanitizers' own branches.
  target_compile_options(onlyonce_hardening INTERFACE -Wno-null-dereference)
  target_link_options(onlyonce_hardening INTERFACE -fsanitize=${sanitizers})
else()
  target_compile_options(onlyonce_hardening INTERFACE -fstack-protector-strong)
  # Fortified functions exist only in optimised builds; some compilers define the level themselves.
  target_compile_options(onlyonce_hardening INTERFACE
    $<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE>
    $<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=2>)
  target_link_options(onlyonce_hardening INTERFACE -Wl,-z,relro,-z,now,-z,noexecstack)
endif()

if(ONLYONCE_FUZZ)
  target_compile_options(onlyonce_hardening INTERFACE -fsanitize=fuzzer-no-link)
endif()
