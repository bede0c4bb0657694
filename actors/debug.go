package actors

import (
	"fmt"
	"runtime/debug"
)

func typeName(m any) string { return fmt.Sprintf("%T", m) }

func stack() string { return string(debug.Stack()) }
