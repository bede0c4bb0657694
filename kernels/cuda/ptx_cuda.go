//go:build cuda

package cuda

import (
	"embed"
	"io/fs"
)

//go:embed ptx/*.ptx
var embedded embed.FS

var compiled fs.FS = embedded
