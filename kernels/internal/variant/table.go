package variant

import (
	"github.com/troupe-run/troupe/graph/tensor"
)

// Register tells how elements of variant tensors are read that come from elsewhere. It is called once in a process.
func Register() {
	tensor.RegisterVariant(compositeName, readComposite)
	tensor.RegisterVariant(listName, readList)
	tensor.RegisterVariant(optionName, readOptional)
	tensor.RegisterVariant(raggedName, readRagged)
	tensor.RegisterVariant(boxedName, readBoxed)
	tensor.RegisterVariant(mapName, readMap)
	tensor.RegisterVariant(csrName, readCSR)
}
