"""What every part of the product runs on: processes for jobs and a store of finished results."""
