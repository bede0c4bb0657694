package gradients

import (
	"github.com/troupe-run/troupe/graph/op"
	"github.com/troupe-run/troupe/graph/shape"
)

func tensorShape(sizes ...int64) shape.Shape { return shape.Of(sizes...) }

var arrayCases = []gradCase{}
var nnCases = []gradCase{}
var linalgCases = []gradCase{}
var stateCases = []gradCase{}
var _ op.Output
