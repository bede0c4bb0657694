package gradients

var listCases = []gradCase{}
var stateCases = []gradCase{}
