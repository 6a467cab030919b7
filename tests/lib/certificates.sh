# shellcheck shell=bash
# certificates - authorities and certificates for a test, in RIG_DIR/certificates: NAME.pem, and
# NAME.key, its private key. Source rig.sh first.

CERTIFICATES=$RIG_DIR/certificates
mkdir -p "$CERTIFICATES"

# cert_authority NAME : one that signs itself.
cert_authority() {
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "/CN=$1" \
    -keyout "$CERTIFICATES/$1.key" \
    -out "$CERTIFICATES/$1.pem" >>"$RIG_DIR/certificates.log" 2>&1 || rig_die "authority $1 is made"
}

# cert_sign FILE AUTHORITY SUBJECT-ALT-NAMES DAYS
cert_sign() {
  local dates=(-days "$4")
  # A last day before today: openssl 3.0 counts back to it, and from 3.4 on the first day has to be told, too.
  if [ "$4" -lt 0 ] && openssl x509 -help 2>&1 | grep -q -- -not_before; then
    dates=(-not_before 20200101000000Z -not_after "$(date -u -d "$4 days" +%Y%m%d%H%M%SZ)")
  fi
  openssl x509 -req -in "$1.csr" -CA "$CERTIFICATES/$2.pem" -CAkey "$CERTIFICATES/$2.key" -CAcreateserial \
    "${dates[@]}" -extfile <(echo "subjectAltName=$3") -out "$1.pem"
}

# cert_make NAME AUTHORITY COMMON-NAME [SUBJECT-ALT-NAMES [DAYS]] : for instance DNS:localhost,
# which is the default. With DAYS below 0 it has expired.
cert_make() {
  local file=$CERTIFICATES/$1
  {
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$3" -keyout "$file.key" -out "$file.csr" &&
      cert_sign "$file" "$2" "${4:-DNS:localhost}" "${5:-2}"
  } >>"$RIG_DIR/certificates.log" 2>&1 || rig_die "certificate $1 is made"
}

# cert_copy FROM TO : renews TO by FROM.
cert_copy() {
  cp "$CERTIFICATES/$1.key" "$CERTIFICATES/$2.key" && cp "$CERTIFICATES/$1.pem" "$CERTIFICATES/$2.pem"
}
