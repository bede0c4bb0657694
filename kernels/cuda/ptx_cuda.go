//go:build cuda

package cuda

import _ "embed"

//go:embed ptx.zip
var compiled []byte
