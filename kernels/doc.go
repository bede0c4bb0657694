// Package kernels is the contract between ops and the executor: what a kernel is, what it sees of the step and
// the device that it runs on, and the registry of rows, one for each op and kind of device.
//
// A row's constructor runs once for each node of a session. It checks and decodes the attributes, so that
// running decodes nothing. The kernel that it returns is called for each execution of the node, concurrently if
// the node's step runs more than once at a time.
//
// The ops are in families, the packages array to training below this one. A family has a Table, which package
// all registers, and imports no other family. Code that several families need is in packages under internal.
// Packages checkpoint, events, example, files, png, reader, tfrecord and wav are formats and know no ops.
// Package simd has the slice functions that are written in assembly.
package kernels
