from smoothcert.cli import main

if __name__ == "__main__":
    main()
