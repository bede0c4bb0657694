package shape

// scriptOps call functions of a program, so their results may have any shape.
var scriptOps = []row{
	{"EagerPyFunc PyFunc PyFuncStateless", unknown},
}
