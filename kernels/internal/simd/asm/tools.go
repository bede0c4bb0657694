//go:build tools

package main

// avo v0.6.0 asks for a golang.org/x/tools that no longer compiles; this
// import keeps the newer one in go.mod.
import _ "golang.org/x/tools/go/packages"
