package graph

import (
	functionpb "github.com/galeone/tensorflow/tensorflow/go/core/framework/function_go_proto"
)

// Library holds the functions that a graph's nodes may call, and the names of their gradients.
type Library struct {
	Functions map[string]*functionpb.FunctionDef
	Gradients map[string]string
}
