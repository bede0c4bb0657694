//go:build cuda

package cuda

import (
	"embed"
	"io/fs"
)

//go:embed ptx/*.ptx
var files embed.FS

var compiled fs.FS = files
