// Package dtypes names the sets of element types that rows are for.
package dtypes
